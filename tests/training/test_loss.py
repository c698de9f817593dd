"""The loss of a training step is the mean over real targets: pads are neither scored nor counted.

Before the first step the head is zero, so that each of V tokens has the chance 1/V, and the mean is log V whatever the
rows' lengths are. After it, the mean is worked out in numpy from the model's own logits.
"""

import json
import math

import numpy as np
import pytest
import torch

from regard.data.tokens.vocabulary import PAD
from regard.models.head import Head
from regard.training.run import TrainRequest, run_training
from regard.training.step import TrainingStep

LINES = "".join("word " * (1 + i * 5 % 9) + "\n" for i in range(60))
SMALL = {"model": dict(layers=1, width=16, heads=2, context=16, dropout=0.0), "tokenizer": dict(kind="word"),
         "training": dict(steps=3, batch=4, valid_every=3, optimizer="adamw", learning_rate=3e-2)}


@pytest.fixture
def steps(monkeypatch):
    """Of every step its batch, the log-probabilities (B, T, V), the loss, and the gradient (V, D) of the head."""
    seen, original = [], TrainingStep.backward

    def recorded(self, step, micro_batch):
        batch = self.batches.batch(step)
        with torch.no_grad():
            every = [self.model.score(batch.tokens, torch.full_like(batch.targets, token), lengths=batch.lengths)[0]
                     for token in range(self.model.vocab)]
        found = original(self, step, micro_batch)
        gradient = self.model.head.weight.grad.double().numpy().copy()
        seen.append((batch, torch.stack(every, -1).double().numpy(), float(found[0]), gradient))
        return found

    monkeypatch.setattr(TrainingStep, "backward", recorded)
    return seen


@pytest.fixture
def vectors(monkeypatch):
    """The vectors (B, T, D) that the head was given, loss by loss."""
    seen, original = [], Head.loss

    def recorded(self, h, targets, shares):
        seen.append(h.detach().double().numpy())
        return original(self, h, targets, shares)

    monkeypatch.setattr(Head, "loss", recorded)
    return seen


def mean_surprise(batch, log_probs, real):
    """- log p(target), summed target by target over the real ones, over their number."""
    nats = [-log_probs[row, time, batch.targets[row, time]] for row, time in zip(*np.nonzero(real), strict=True)]
    return sum(nats) / len(nats)


def real_targets(batch):
    return (batch.targets != PAD).numpy()                            # no target in a text is a pad


@pytest.mark.parametrize("micro", [0, 1])
@pytest.mark.parametrize("task", ["lm", "masked"])
def test_the_loss_of_a_step_is_the_mean_over_its_real_targets(steps, tmp_path, task, micro):
    (tmp_path / "lines.txt").write_text(LINES)
    settings = SMALL | {"data": dict(documents="line"), "training": SMALL["training"] | dict(micro_batch=micro)}
    run_training(TrainRequest((str(tmp_path / "lines.txt"),), task=task, out=str(tmp_path / "run"), settings=settings,
                              device="cpu", quiet=True))
    assert len(steps) == 3 and any((~real_targets(batch)).any() for batch, *_ in steps)
    for batch, log_probs, loss, _ in steps:
        assert loss == pytest.approx(mean_surprise(batch, log_probs, real_targets(batch)), rel=1e-5)
    assert steps[0][2] == pytest.approx(math.log(steps[0][1].shape[-1]), rel=1e-6)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    logged = [row["train_loss"] for row in rows if "train_loss" in row]
    assert logged == pytest.approx([step[2] for step in steps], rel=1e-6)


def test_the_first_loss_of_a_translator_is_that_of_a_blind_guess(tmp_path, monkeypatch):
    """Targets of one to seven words in one batch: log V, where a mean over padded positions would be far less."""
    seen, original = [], TrainingStep.accumulate

    def recorded(self, batch, *rest):
        seen.append(batch)
        return original(self, batch, *rest)

    monkeypatch.setattr(TrainingStep, "accumulate", recorded)
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    rows = [" ".join(words[:1 + i % 7]) for i in range(60)]
    for name in ("a.fr", "a.en"):
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    settings = {"model": SMALL["model"] | dict(tied=False), "tokenizer": dict(kind="word"),
                "training": dict(steps=1, batch=400, widths=8, optimizer="adamw")}
    done = run_training(TrainRequest((str(tmp_path / "a.fr"), str(tmp_path / "a.en")), task="translate",
                                     family="transformer", out=str(tmp_path / "run"), settings=settings, device="cpu",
                                     quiet=True))
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])["train_loss"]
    assert not real_targets(seen[0]).all()
    assert first == pytest.approx(math.log(done.model.vocab), rel=1e-6)


def test_the_gradient_is_that_of_the_mean_over_real_targets(steps, vectors, train, tmp_path):
    """Of the head's weights, from the definition: the mean over real targets of (p - onehot) h^T, where p is 1/V."""
    (tmp_path / "lines.txt").write_text(LINES)
    train(files=[str(tmp_path / "lines.txt")], tokenizer=dict(kind="word"), data=dict(documents="line"),
          training=dict(steps=1, valid_every=1, batch=32))
    batch, log_probs, _, found = steps[0]
    vocab, real = log_probs.shape[-1], real_targets(batch)
    surplus = np.where(real[..., None], 1 / vocab - np.eye(vocab)[batch.targets.numpy()], 0)
    expected = np.einsum("btv,btd->vd", surplus, vectors[0]) / real.sum()
    assert not real.all()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
