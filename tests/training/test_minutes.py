"""A budget of minutes: the plan follows the clock, the schedule follows the plan, a recorded plan gives the same."""

from dataclasses import replace
from itertools import pairwise

import pytest

import regard
from regard.errors import SettingError
from regard.run_folder import RunFolder
from regard.training.minutes import Pace
from regard.training.report import TEXT_READS, advise_minutes
from regard.training.schedule import place_in_schedule, rate
from regard.training.settings import TrainingSettings


def simulate(step_seconds, *, seconds=100.0, steps=1000, validation=0.0, every=100, first_sample=0.0, **limits):
    """A run whose step `n` takes step_seconds(n); return the settings at its end, and the time it took.

    After the first validation a sample is written, for which the model that writes is compiled."""
    s, clock, step = TrainingSettings(steps=steps, valid_every=every), 0.0, 0
    pace = Pace(seconds, **limits)
    while step < s.steps:
        clock += step_seconds(step)
        step += 1
        if step % every == 0 or step == s.steps:
            clock += validation + first_sample
            pace.count_validation(validation, first_sample)
            first_sample = 0.0
        s = pace.replan(step, clock, s) or s
    return s, clock


@pytest.mark.parametrize("step_seconds", [
    lambda n: 0.1, lambda n: 0.3, lambda n: 0.02,
    lambda n: 0.05 if n < 500 else 0.25,                         # another process begins
    lambda n: 0.4 if n < 100 else 0.08,                          # and one ends
    lambda n: 0.1 if n % 40 < 20 else 0.2,                       # comes and goes
], ids=["as estimated", "slower", "quicker", "becomes slow", "becomes quick", "by turns"])
@pytest.mark.parametrize("validation", [0.0, 0.5])
def test_the_run_ends_within_five_percent_of_its_minutes(step_seconds, validation):
    s, took = simulate(step_seconds, validation=validation)
    assert took == pytest.approx(100, rel=0.05)
    assert s.plan == () or s.plan[-1] == s.steps


def test_a_steady_machine_changes_nothing():
    assert simulate(lambda n: 0.1)[0].plan == ()


def test_time_is_left_for_the_work_behind_the_last_step():
    _, took = simulate(lambda n: 0.2, validation=1.0, passes_after=5.0)
    assert took + 5.0 == pytest.approx(100, rel=0.05)


def test_a_validation_is_reckoned_with_before_one_was_measured():
    _, took = simulate(lambda n: 0.1, validation=20.0, every=10_000, validation_steps=200)
    assert took == pytest.approx(100, rel=0.05)


def test_a_first_sample_that_takes_long_does_not_end_the_run():
    s, took = simulate(lambda n: 0.02, seconds=41.0, steps=1800, validation=1.0, every=120, first_sample=5.0,
                       passes_after=5.0)
    assert took + 5.0 == pytest.approx(41, rel=0.05) and s.steps > 1000


def test_the_text_is_read_no_more_often_than_it_shall_be():
    s, took = simulate(lambda n: 0.01, steps=300, most=400)
    assert s.steps == 400 and took < 5


def test_a_loss_that_turned_brings_the_schedule_to_its_end():
    s, pace = TrainingSettings(steps=1000, valid_every=50), Pace(100.0)
    assert pace.end_early(400, 1, s) is None                     # one worse validation is noise
    ended = pace.end_early(400, 2, s)
    assert ended.plan == (0, 1000, 400, 460) and rate(459, ended) < 0.01
    assert rate(400, ended) == rate(400, s)
    assert pace.end_early(450, 3, ended) is None and pace.replan(450, 90.0, ended) is None
    assert Pace(100.0).end_early(960, 5, s) is None              # it ends soon anyway


def test_a_resumed_run_first_comes_to_the_last_change_that_is_recorded():
    s, pace = TrainingSettings(steps=300, valid_every=50, plan=(0, 100, 60, 300)), Pace(100.0)
    pace.replan(10, 1.0, s)
    assert pace.replan(20, 50.0, s) is None and pace.end_early(50, 9, s) is None
    pace.replan(60, 51.0, s)
    assert pace.replan(70, 61.0, s).plan[:4] == (0, 100, 60, 300)


def test_too_few_minutes_are_said_with_those_that_would_do():
    assert advise_minutes(5, 0.7, TEXT_READS) == (
        "0.7 times the data in 5 minutes: expect broken sentences; about 21 minutes read it 3 times")
    assert not advise_minutes(5, 1.2, TEXT_READS) and not advise_minutes(0, 0.1, TEXT_READS)


def test_without_a_change_the_schedule_is_that_of_the_steps():
    s = TrainingSettings(steps=50, schedule="wsd")
    assert [rate(step, s) for step in range(50)] == [rate(step, replace(s, plan=(0, 50))) for step in range(50)]


@pytest.mark.parametrize("schedule", ["cosine", "wsd", "constant"])
def test_after_a_change_the_schedule_goes_on_from_its_place_to_its_end(schedule):
    before = TrainingSettings(steps=100, schedule=schedule)
    changed = TrainingSettings(steps=260, schedule=schedule, plan=(0, 100, 20, 180, 100, 260))
    assert [rate(step, changed) for step in range(21)] == [rate(step, before) for step in range(21)]
    # Steps 20 to 100 of 180 do half of the 80 that were left: the place is 60 of 100. The last 160 do the other 40.
    assert [place_in_schedule(step, changed)[0] for step in (20, 100, 180, 260)] == [20, 60, 80, 100]
    rates = [rate(step, changed) for step in range(260)]
    assert all(after <= earlier + 1e-12 for earlier, after in pairwise(rates[2:]))
    assert rates[100] == pytest.approx(rate(60, before))


@pytest.mark.parametrize("plan", [(0, 5), (0, 10, 3), (1, 10), (0, 10, 3, 2, 4, 10), (0, 4, 5, 10)])
def test_a_plan_that_no_run_recorded_is_refused(plan):
    with pytest.raises(SettingError, match=r"training\.plan = .* is no plan of 10 steps"):
        TrainingSettings(steps=10, plan=plan)


def test_a_recorded_plan_gives_the_same_weights_again(tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("a cat sat on a mat and the dog saw it\n" * 200)
    small = {"model": {"layers": 1, "width": 8, "heads": 1, "context": 16}, "training": {"batch": 2, "compile": "no"}}
    looks = iter([None, None, 9, None, 14])

    def replan(self, step, clock, s):
        steps = next(looks, None)
        return None if steps is None else replace(s, steps=steps, plan=(*(s.plan or (0, s.steps)), step, steps))

    monkeypatch.setattr(Pace, "replan", replan)
    monkeypatch.setattr("regard.training.choices.steps_for_minutes", lambda s, *rest: (6, replace(s, threads=1)))
    first = regard.train(str(text), minutes=0.5, mix=False, settings=small, out=str(tmp_path / "first"), quiet=True)
    training = first.tables["training"]
    assert training["plan"] == [0, 6, 3, 9, 5, 14] and training["steps"] == 14
    again = {**small, "training": {**small["training"], "steps": 14, "plan": training["plan"], "threads": 1,
                                   "valid_every": training["valid_every"]}}
    second = regard.train(str(text), mix=False, settings=again, out=str(tmp_path / "second"), quiet=True)
    assert RunFolder(first.path).weights_path.read_bytes() == RunFolder(second.path).weights_path.read_bytes()
