import json
import math
import os
import signal
import threading
from types import SimpleNamespace

import pytest
import torch

from regard.corpora import ab
from regard.errors import Interrupted, RunError, SettingError, StorageError, TrainingStopped
from regard.run_folder import RunFolder, unpack
from regard.trained import load
from regard.training import checkpoint, loop
from regard.training import step as steps_of
from regard.training.checkpoint import Checkpoints
from regard.training.optim import Optimizers
from regard.training.schedule import rate
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingStep


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_training_on_a_rule_learns_the_rule(train):
    """`ab`: the last symbol of a line is B if any symbol was B. A model that reads its context learns it."""
    model = train(files=["ab"], tokenizer=dict(kind="auto"), model=dict(width=32, context=32),
                  training=dict(steps=120, batch=32, valid_every=60, optimizer="muon", learning_rate=1e-2))
    for row, answer in (("AAAA", "A"), ("AABA", "B"), ("A" * 20, "A"), ("B" + "A" * 19, "B"), ("A" * 19 + "B", "B")):
        prompt = f"{' '.join(row)} {ab.ARROW}"
        assert model.generate(prompt, new_tokens=1, temperature=0).strip() == answer, prompt


def test_metrics_have_a_row_a_step_and_the_best_weights_are_kept(train, tmp_path):
    train()
    logged = rows(tmp_path / "run")
    assert [row["step"] for row in logged if "train_loss" in row] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in logged if "valid_loss" in row] == [3, 6]
    assert all({"step", "tokens", "seconds"} <= set(row) for row in logged)
    best = min(row["valid_loss"] for row in logged if "valid_loss" in row)
    text = (tmp_path / "text.txt").read_text()
    (tmp_path / "valid.txt").write_text(text[int(0.9 * len(text)):])
    model = load(tmp_path / "run", alone=True)                   # what is logged is the network's
    assert math.isclose(model.score_files([str(tmp_path / "valid.txt")]).loss, best, rel_tol=1e-3)


@pytest.fixture
def gradients(monkeypatch):
    """The gradients of every step of every run, before clipping: runs are compared by these, for the optimisers
    turn the rounding errors of a gradient that should be zero into whole steps."""
    seen = []
    original = TrainingStep.backward

    def recorded(self, *given):
        result = original(self, *given)
        seen.append({name: p.grad.clone() for name, p in self.model.named_parameters()})
        return result

    monkeypatch.setattr(TrainingStep, "backward", recorded)
    return seen


def assert_same_gradients(a, b):
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("micro", [1, 3])
def test_accumulated_pieces_give_the_loss_and_the_gradients_of_one_big_batch(train, tmp_path, gradients, micro):
    lines = "".join("word " * (1 + i % 7) + "\n" for i in range(60))
    (tmp_path / "lines.txt").write_text(lines)
    options = dict(files=[str(tmp_path / "lines.txt")], data=dict(documents="line"))
    train("whole", training=dict(steps=1), **options)
    train("pieces", training=dict(steps=1, micro_batch=micro), **options)
    assert_same_gradients(*gradients)
    assert any(gradient.abs().max() > 1e-3 for gradient in gradients[0].values())
    whole, pieces = (rows(tmp_path / name)[0]["train_loss"] for name in ("whole", "pieces"))
    assert whole == pytest.approx(pieces, rel=1e-6)


def test_out_of_memory_halves_the_rows_at_once_and_goes_on_with_the_same_batch(train, gradients, monkeypatch):
    train("expected", training=dict(steps=1))
    original = TrainingStep.accumulate
    seen = []

    def tight(self, batch, state, rows_at_once, share):
        seen.append(rows_at_once)
        if rows_at_once > 1:
            raise torch.OutOfMemoryError("pretend")
        return original(self, batch, state, rows_at_once, share)

    monkeypatch.setattr(TrainingStep, "accumulate", tight)
    train("tight")
    assert seen[:3] == [4, 2, 1] and set(seen[3:]) == {1}
    assert_same_gradients(gradients[0], gradients[1])


def test_out_of_memory_with_a_single_row_says_what_to_make_smaller(train, monkeypatch):
    def never(self, *arguments):
        raise torch.OutOfMemoryError("pretend")

    monkeypatch.setattr(TrainingStep, "accumulate", never)
    with pytest.raises(TrainingStopped, match="single row at once: use a smaller --width"):
        train()


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_value_that_is_not_finite_stops_before_the_update(train, tmp_path, monkeypatch, what):
    clip, backward = steps_of.clip_gradients, TrainingStep.backward
    steps = []

    def poisoned(*given, **options):
        norm = clip(*given, **options)
        return norm * math.nan if what == "gradient" and len(steps) == 5 else norm

    def poisoned_loss(self, step, micro):
        loss, tokens, micro = backward(self, step, micro)
        steps.append({name: p.detach().clone() for name, p in self.model.named_parameters()})
        return (loss + math.inf if what == "loss" and step == 4 else loss), tokens, micro

    monkeypatch.setattr(steps_of, "clip_gradients", poisoned)
    monkeypatch.setattr(TrainingStep, "backward", poisoned_loss)
    with pytest.raises(TrainingStopped, match=f"the {what} became .* at step 4"):
        train(training=dict(checkpoint_every=1))
    files, damaged = RunFolder(tmp_path / "run").newest_checkpoint()
    assert not damaged and json.loads(files["at.json"])["step"] == 4
    for name, tensor in unpack(files["model.safetensors"], "").items():
        assert torch.equal(tensor, steps[4][name])


@pytest.mark.parametrize("every, quick, saved", [(0, math.inf, [2, 4, 6]), (0, -1.0, [2, 6]), (3, -1.0, [3, 6])])
def test_checkpoints_that_take_long_come_less_often_unless_one_says(train, monkeypatch, every, quick, saved):
    steps, original = [], Checkpoints.save

    def save(self, position):
        steps.append(position.step)
        original(self, position)

    monkeypatch.setattr(Checkpoints, "save", save)
    monkeypatch.setattr(checkpoint, "QUICK", quick)
    monkeypatch.setattr(checkpoint, "SAVING_SHARE", 1e-9)
    train(training=dict(steps=6, valid_every=2, checkpoint_every=every))
    assert steps == saved


def test_a_run_that_has_stopped_improving_ends_with_a_checkpoint(train, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "QUICK", -1.0)
    monkeypatch.setattr(checkpoint, "SAVING_SHARE", 1e-9)
    monkeypatch.setattr(loop.TrainingJob, "measure", lambda self: {"valid_loss": 1.0})
    train(training=dict(steps=9, valid_every=2, patience=2))
    files, _ = RunFolder(tmp_path / "run").newest_checkpoint()
    assert json.loads(files["at.json"])["step"] == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_within_a_step_and_resuming_ends_as_if_never_stopped(train, tmp_path, monkeypatch, number):
    expected = train("expected")
    original = TrainingStep.backward

    def interrupted(self, step, micro):
        if step == 2:
            os.kill(os.getpid(), number)
        return original(self, step, micro)

    monkeypatch.setattr(TrainingStep, "backward", interrupted)
    with pytest.raises(Interrupted, match="stopped at step 3 of 6; everything is saved"):
        train("run")
    monkeypatch.undo()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    resumed = train("run", resume=True)
    for a, b in zip(expected.language_model.parameters(), resumed.language_model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert signal.getsignal(number) != interrupted


def test_training_works_off_the_main_thread(train):
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(train()))
    thread.start()
    thread.join()
    assert outcome


def test_resuming_refuses_what_would_make_it_another_run(train, tmp_path):
    train()
    for table, change in (("model", dict(width=32)), ("training", dict(batch=8)), ("training", dict(seed=3)),
                          ("data", dict(documents="line")), ("tokenizer", dict(kind="byte")),
                          ("training", dict(minutes=3.0))):
        with pytest.raises(SettingError, match=r"cannot change from .* when a run is resumed"):
            train(resume=True, **{table: change})


def test_resuming_with_more_steps_goes_on(train, tmp_path, capsys):
    train()
    train(resume=True, training=dict(steps=9), quiet=False)
    assert rows(tmp_path / "run")[-1]["step"] == 9
    assert "changed: training.steps 6 -> 9" in capsys.readouterr().err


def test_resuming_with_fewer_steps_than_were_made_is_refused_and_changes_nothing(train, tmp_path):
    def files():
        return {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}

    train()
    before = files()
    with pytest.raises(SettingError, match=r"--steps 3: .* is at step 6 already"):
        train(resume=True, training=dict(steps=3))
    assert files() == before


def test_resuming_finds_the_text_where_it_is_now(train, tmp_path):
    train()
    (tmp_path / "text.txt").rename(tmp_path / "moved.txt")
    train(files=[str(tmp_path / "moved.txt")], resume=True, training=dict(steps=7))


def test_resuming_or_fine_tuning_as_another_family_is_refused(train, tmp_path):
    train()
    with pytest.raises(SettingError, match="leave --family out"):
        train(family="rnn", resume=True)
    with pytest.raises(SettingError, match="leave --family out"):
        train("tuned", family="rnn", base=str(tmp_path / "run"))


def test_resuming_with_another_text_is_refused(train, tmp_path):
    train()
    (tmp_path / "text.txt").write_text("quite another text, " * 100)
    with pytest.raises(RunError, match="the text has changed"):
        train(resume=True)


def test_a_run_is_never_overwritten(train):
    train()
    with pytest.raises(RunError, match="already holds a run: go on with --resume"):
        train()


def test_resuming_passes_over_a_damaged_checkpoint(train, tmp_path, capsys):
    expected = train("expected", training=dict(steps=9))
    train()
    newest = RunFolder(tmp_path / "run").checkpoints()[-1] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-8])
    resumed = train(resume=True, training=dict(steps=9), quiet=False)
    assert "checkpoint 00000006 is damaged: passed over" in capsys.readouterr().err
    assert rows(tmp_path / "run")[-1]["step"] == 9
    assert resumed.parameters == expected.parameters


def test_fine_tuning_begins_with_the_weights_of_the_other_run(train, tmp_path):
    base = train("base")
    tuned = train("tuned", base=str(tmp_path / "base"), training=dict(learning_rate=0.0, steps=1, weight_decay=0.0))
    for a, b in zip(base.language_model.parameters(), tuned.language_model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert tuned.tables["run"]["from"] == str(tmp_path / "base")
    with pytest.raises(SettingError, match="cannot change"):
        train("other", base=str(tmp_path / "base"), model=dict(width=32))


def test_a_fine_tuned_run_killed_at_its_beginning_still_begins_with_those_weights(train, tmp_path, monkeypatch):
    import shutil

    base = train("base")
    frozen = dict(learning_rate=0.0, steps=1)
    monkeypatch.setattr("regard.training.run.fit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train("tuned", base=str(tmp_path / "base"), training=frozen)
    monkeypatch.undo()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    shutil.rmtree(tmp_path / "base")
    tuned = train("tuned", resume=True, training=frozen, model={})
    for a, b in zip(base.language_model.parameters(), tuned.language_model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_full_disk_stops_with_one_line_and_loses_nothing(train, tmp_path, monkeypatch):
    import errno

    from regard import storage

    train()
    before = RunFolder(tmp_path / "run").newest_checkpoint()[0]

    def full(operation, path):
        if "checkpoints" in str(path) and operation == "write":
            raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(storage, "before_operation", full)
    with pytest.raises(StorageError, match="the disk is full"):
        train(resume=True, training=dict(steps=9))
    monkeypatch.setattr(storage, "before_operation", None)
    assert RunFolder(tmp_path / "run").newest_checkpoint()[0] == before


def test_minutes_become_steps_once_and_are_then_fixed(train, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.training.choices.TRIAL_SECONDS", 0.05)
    train(training=dict(steps=0, minutes=0.02))
    steps = RunFolder(tmp_path / "run").read_settings()["training"]["steps"]
    assert steps >= 1 and rows(tmp_path / "run")[-1]["step"] == steps


def test_a_trial_for_the_budget_leaves_no_trace(train, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.training.choices.TRIAL_SECONDS", 0.05)
    timed = train("timed", training=dict(steps=0, minutes=0.02), model=dict(dropout=0.1))
    same = {**timed.tables["training"], "minutes": 0.0}               # all that was chosen, the threads included
    plain = train("plain", training=same, model=dict(dropout=0.1))
    for a, b in zip(timed.language_model.parameters(), plain.language_model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_early_stopping_stops_when_the_held_out_loss_no_longer_falls(train, tmp_path):
    train(training=dict(steps=400, valid_every=2, patience=3, learning_rate=0.0, schedule="constant"))
    assert rows(tmp_path / "run")[-1]["step"] == 8


@pytest.mark.parametrize("schedule", ["cosine", "wsd", "constant"])
def test_schedules_rise_stay_in_bounds_and_end_low(schedule):
    s = TrainingSettings(steps=100, schedule=schedule, warmup=0.1)
    rates = [rate(step, s) for step in range(100)]
    assert rates[0] == 0.1 and max(rates) == 1.0 and all(0 <= r <= 1 for r in rates)
    assert rates[:10] == sorted(rates[:10])
    assert rates[-1] == 1.0 if schedule == "constant" else rates[-1] < 0.05


@pytest.mark.parametrize("took, ago, pays", [
    (0.1, 0.0, True), (1.0, 9.9, False), (1.0, 10.1, True), (3.0, 29.0, False)])
def test_a_checkpoint_that_takes_long_waits_for_ten_times_as_long(monkeypatch, took, ago, pays):
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: 1000.0)
    assert Checkpoints.worthwhile(SimpleNamespace(took=took, saved=1000.0 - ago)) is pays


def test_updates_are_recorded_anew_after_a_checkpoint_was_taken_up(train, monkeypatch):
    """A recording knows the tensors of the optimisers that were there before."""
    train(training=dict(checkpoint_every=3))
    order, load, record = [], Optimizers.load, TrainingStep.record_updates
    monkeypatch.setattr(Optimizers, "load", lambda self, *given: (order.append("load"), load(self, *given))[1])
    monkeypatch.setattr(TrainingStep, "record_updates", lambda self: (order.append("record"), record(self))[1])
    train(resume=True, training=dict(steps=8))
    assert order == ["record", "load", "record"]
