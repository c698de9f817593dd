"""Samples beside training: they change nothing, cost little, and survive kills and resuming as the metrics do."""

import hashlib
import json
import shutil
from dataclasses import replace

import pytest
import torch

from regard.tasks import TASKS
from regard.training.loop import TrainingJob
from regard.training.report import SampleLog

LM = {"model": dict(dropout=0.2), "training": dict(ema=0.9)}


def weights(folder):
    last = sorted((folder / "checkpoints").iterdir())[-1]
    return [hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (folder / "model.safetensors", last / "model.safetensors", last / "training.safetensors")]


def lines(folder):
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(SampleLog, "due", lambda self, seconds: True)


def test_weights_optimizer_and_generators_are_the_same_bits_with_and_without(train, tmp_path, always):
    train("with", **LM)
    train("without", model=LM["model"], training={**LM["training"], "samples": False})
    assert weights(tmp_path / "with") == weights(tmp_path / "without")
    assert [line["step"] for line in lines(tmp_path / "with")] == [3, 6]
    assert not (tmp_path / "without" / "samples.jsonl").exists()


def test_a_sampler_that_draws_from_the_generator_changes_nothing_either(train, tmp_path, always, monkeypatch):
    train("quiet", **LM)
    sampler = TASKS["lm"].sample

    def noisy(*given):
        write = sampler(*given)
        return lambda: {**write(), "noise": torch.rand(3).tolist()}

    monkeypatch.setattr("regard.tasks.lm.task.TASK", replace(TASKS["lm"], sample=noisy))
    train("noisy", **LM)
    assert lines(tmp_path / "noisy")[0]["noise"]
    assert weights(tmp_path / "quiet") == weights(tmp_path / "noisy")


def test_a_planted_sampler_that_changes_a_weight_is_seen(train, tmp_path, always, monkeypatch):
    train("quiet", **LM)
    write = TrainingJob.sample

    def bad(self, position):
        write(self, position)
        with torch.no_grad():
            next(iter(self.step.model.parameters())).add_(1e-4)

    monkeypatch.setattr(TrainingJob, "sample", bad)
    train("bad", **LM)
    assert weights(tmp_path / "quiet") != weights(tmp_path / "bad")


def test_resuming_drops_what_was_written_after_the_checkpoint(train, tmp_path, always):
    train("whole", training=dict(steps=9, checkpoint_every=3))
    train("part", training=dict(steps=9, checkpoint_every=3))
    part = tmp_path / "part"
    shutil.rmtree(part / "checkpoints" / "00000009")
    with open(part / "samples.jsonl", "ab") as file:
        file.write(b'{"step": 9, "seconds": 1, "to')                       # torn by a kill
    train("part", resume=True, training=dict(steps=9, checkpoint_every=3))
    told = [{name: line[name] for name in ("step", "text", "map")} for line in lines(part)]
    assert told == [{name: line[name] for name in ("step", "text", "map")} for line in lines(tmp_path / "whole")]
    assert [line["step"] for line in told] == [3, 6, 9]


def test_one_that_was_dear_waits_until_it_is_cheap(tmp_path):
    samples = SampleLog(tmp_path / "samples.jsonl")
    assert samples.due(0.0)
    samples.row({"step": 1, "seconds": 10.0, "took": 1.0})
    assert not samples.due(109.0) and samples.due(110.5)
    again = SampleLog(tmp_path / "samples.jsonl")
    again.cut(5)
    assert not again.due(109.0) and again.due(110.5)
    again.cut(0)
    assert again.due(11.0)


def test_the_first_and_the_last_validation_are_sampled_whatever_they_take(train, tmp_path, monkeypatch):
    monkeypatch.setattr(SampleLog, "due", lambda self, seconds: self.last is None)
    train("run", training=dict(steps=12, valid_every=3))
    assert [line["step"] for line in lines(tmp_path / "run")] == [3, 12]


def test_counted_models_write_once_and_carried_states_are_left_alone(train, tmp_path, always):
    train("ngram", family="ngram", model=dict(order=3))
    (line,) = lines(tmp_path / "ngram")
    assert line["map"] is None and line["text"]
    for name, samples in (("a", True), ("b", False)):
        train(name, family="rnn", model=dict(width=8, hidden=12, context=8),
              training=dict(reading="streams", samples=samples))
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
