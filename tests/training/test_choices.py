import pytest

from regard.training.choices import SMALL_SPLIT, fill_intervals, plan_validations
from regard.training.loop import due
from regard.training.request import TrainRequest, claim_folder, plan_new
from regard.training.settings import TrainingSettings


def test_validation_takes_a_small_share_of_a_long_run_and_happens_at_least_twice():
    for steps, tokens, held_out in ((2000, 768, 111_541), (100_000, 4096, 10**6), (10, 64, 100)):
        every, one_in = plan_validations(steps, tokens, held_out)
        assert 2 <= steps // every <= 25
        assert one_in == 1 or held_out > SMALL_SPLIT


def test_a_small_split_is_always_measured_whole_and_a_huge_one_is_sampled():
    assert plan_validations(5, 64, SMALL_SPLIT)[1] == 1
    _, one_in = plan_validations(50, 512, 25_000_000)
    assert 25_000_000 / one_in >= SMALL_SPLIT * 0.9 and one_in > 50


def test_what_the_user_says_is_kept():
    s = fill_intervals(TrainingSettings(valid_every=7, checkpoint_every=3, valid_one_in=2, log_every=5), 100, 64, 1000)
    assert (s.steps, s.valid_every, s.checkpoint_every, s.valid_one_in, s.log_every) == (100, 7, 3, 2, 5)


def test_the_last_step_is_due_and_a_step_shortly_before_it_is_not():
    assert [step for step in range(1, 972) if due(step, 323, 971)] == [323, 646, 971]
    assert [step for step in range(1, 11) if due(step, 5, 10)] == [5, 10]
    assert [step for step in range(1, 4) if due(step, 1, 3)] == [1, 2, 3]


def test_a_budget_of_minutes_has_validations_some_seconds_apart():
    for minutes, most in ((0.1, 2), (0.5, 3), (1, 7), (60, 20)):
        every, _ = plan_validations(1000, 4096, 10_000, minutes)
        assert 1000 // every == most
    assert 1000 // plan_validations(1000, 4096, 10_000, 5.0, apart=40.0)[0] == 7


@pytest.mark.parametrize("pace,family,asked,chosen", [
    (1.0, None, {}, "transformer"), (50.0, None, {}, "rnn-attention"), (50.0, "transformer", {}, "transformer"),
    (50.0, None, {"model": {"layers": 2}}, "transformer")])
def test_a_slow_cpu_takes_the_recurrence_for_pairs_unless_the_user_says_otherwise(
        monkeypatch, tmp_path, pace, family, asked, chosen):
    """Of 30,000 pairs: five minutes read them several times at pace 1, a small part of them at pace 50."""
    monkeypatch.setattr("regard.training.choices.measure_pace", lambda device: pace)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for side, words in (("fr", "le chat {} dort bien dans la petite maison rouge"), ("en", "cat {} sleeps well here")):
        (tmp_path / f"book.{side}").write_text("".join(words.format(n) + "\n" for n in range(30_000)))
    request = TrainRequest(("book.fr", "book.en"), task="translate", family=family, settings=asked, device="cpu")
    plan = plan_new(request, lambda line: None)
    assert plan.family.name == chosen
    assert ("too few steps" in plan.why) == (chosen == "rnn-attention")
    folder, _ = claim_folder(request)
    assert folder.name == ("book-translate" if family is None else "book-translate-transformer")
