"""Recorded updates, on gradients that never move. Recording needs a GPU; without one the work itself stands in."""

from types import SimpleNamespace

import pytest
import torch

from regard.training import recorded_step
from regard.training.averaging import Average
from regard.training.optim import Optimizers
from regard.training.recorded_step import EAGER_UPDATES, RecordedWork, StaticGradients, why_updates_are_eager
from regard.training.settings import TrainingSettings

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.stack = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4))
        self.unused = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.stack(x)


def trained(way, steps=9):
    """Weights and averages after some steps, with the norm of each gradient: `way` takes a job's part in them."""
    model = Small().to(DEVICE)
    settings = TrainingSettings(optimizer="muon", ema=0.9, weight_decay=0.1, learning_rate=0.05, muon_rate=0.1)
    optimizers, average = Optimizers(model, settings), Average(model, 0.9)

    def clip():
        return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)

    def update():
        optimizers.step()
        average.update()

    job = way(SimpleNamespace(model=model, clip=clip, update=update))
    norms = []
    for step in range(steps):
        optimizers.set_rate(1 / (1 + step))
        optimizers.zero_grad()
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step)).to(DEVICE)
        (model(x) - x).square().mean().backward()
        job.take()
        norms.append(float(job.clip()))
        average.next()
        job.update()
    return norms, {**dict(model.named_parameters()), **{f"average {n}": w for n, w in average.weights.items()}}


def plain(job):
    job.take = lambda: None
    return job


def recorded(job):
    gradients = StaticGradients(job.model)
    return SimpleNamespace(take=gradients.copy, clip=RecordedWork(job.clip, print),
                           update=RecordedWork(job.update, print))


@pytest.fixture(autouse=True)
def standing_in(monkeypatch):
    if not GPU:
        def record(self):
            def replay():
                self.result = self.work()
            return replay

        monkeypatch.setattr(RecordedWork, "record", record)


def test_recorded_updates_train_as_plain_ones_do():
    (norms, weights), (expected, by_plain) = trained(recorded), trained(plain)
    assert norms == pytest.approx(expected, rel=1e-5)
    for name, weight in weights.items():
        torch.testing.assert_close(weight, by_plain[name], rtol=1e-5, atol=1e-6)


def test_gradients_are_copied_and_what_was_not_reached_is_zero():
    static = StaticGradients(Small())
    for weight in static.weights:
        weight.grad = torch.ones_like(weight)
    static.copy()
    for weight, held in zip(static.weights, static.held, strict=True):
        assert weight.grad is held and (held == 1).all()
    static.weights[0].grad = None                                   # not reached this time
    static.copy()
    assert not static.held[0].any() and static.weights[0].grad is static.held[0]


def test_work_is_done_as_it_is_a_few_times_and_then_replayed(monkeypatch):
    done = []
    monkeypatch.setattr(RecordedWork, "record", lambda self: lambda: done.append("replayed"))
    work = RecordedWork(lambda: done.append("worked"), print)
    for _ in range(EAGER_UPDATES + 2):
        work()
    assert done == ["worked"] * EAGER_UPDATES + ["replayed"] * 2


def test_what_cannot_be_recorded_says_so_once_and_goes_on(monkeypatch):
    def refuse(self):
        raise RuntimeError("not permitted\nmore")

    monkeypatch.setattr(RecordedWork, "record", refuse)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    said, done = [], []
    work = RecordedWork(lambda: done.append(1), said.append)
    for _ in range(EAGER_UPDATES + 3):
        work()
    assert len(done) == EAGER_UPDATES + 3
    assert said == ["updates go on as they are: they cannot be recorded as a CUDA graph (not permitted)"]


def test_it_pays_on_a_gpu_for_small_models_only(monkeypatch):
    model = Small()
    assert why_updates_are_eager(model, "auto") and why_updates_are_eager(model.to("meta"), "auto")
    if GPU:
        model = Small().cuda()
        assert not why_updates_are_eager(model, "auto") and why_updates_are_eager(model, "no")
        monkeypatch.setattr(recorded_step, "MOST_UPDATED", 10)
        assert why_updates_are_eager(model, "auto")
