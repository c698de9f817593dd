"""Truncated back-propagation through time: the state goes on from batch to batch, and gradients stop at each."""

import pytest
import torch

from regard.errors import Interrupted
from regard.run_folder import RunFolder, unpack
from regard.training.step import TrainingStep

RECURRENT = {"rnn": {"f": "relu"}, "gru": {}, "lstm": {}}
OTHERS = {"average": {}, "window": {"order": 4}}
SMALL = dict(layers=2, width=8, hidden=12, context=8, tied=True, dropout=0.1)
STREAMS = dict(reading="streams", steps=6, batch=4, valid_every=3, checkpoint_every=2, optimizer="muon")


def model(family):
    if family in RECURRENT:
        return dict(SMALL, initial="learned", **RECURRENT[family])
    return dict(SMALL, **OTHERS[family])


@pytest.mark.parametrize("family", [*RECURRENT, *OTHERS])
def test_a_run_that_was_stopped_in_a_stream_ends_bit_identical(train, tmp_path, monkeypatch, family):
    expected = train("expected", family=family, model=model(family), training=STREAMS)
    original = TrainingStep.backward

    def stopped(self, step, micro):
        if step == 3:
            raise Interrupted("pretend")
        return original(self, step, micro)

    monkeypatch.setattr(TrainingStep, "backward", stopped)
    with pytest.raises(Interrupted):
        train("run", family=family, model=model(family), training=STREAMS)
    monkeypatch.setattr(TrainingStep, "backward", original)
    resumed = train("run", family=family, model=model(family), training=STREAMS, resume=True)
    ours, theirs = (each.language_model.saved_tensors() for each in (resumed, expected))
    assert ours and all(torch.equal(ours[name], theirs[name]) for name in theirs)
    last = [RunFolder(tmp_path / name).newest_checkpoint()[0]["training.safetensors"] for name in ("run", "expected")]
    assert last[0] == last[1]
    carried = {name for name in unpack(last[0], "") if name.startswith("carried/")}
    kept = {"rnn": {"h"}, "gru": {"h"}, "lstm": {"h", "c"}, "average": {"total", "count"}, "window": {"last"}}[family]
    assert carried == {f"carried/layers.0.{name}" for name in kept}


@pytest.fixture
def steps(monkeypatch):
    """Of every step: the state before it, as it came, and the gradients after it."""
    seen = []
    before, backward = TrainingStep.state_before, TrainingStep.backward

    def state_before(self, step, batch):
        state = before(self, step, batch)
        seen.append({"state": state, "values": state.clone()})
        return state

    def with_gradients(self, *given):
        result = backward(self, *given)
        seen[-1]["gradients"] = {
            name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None}
        return result

    monkeypatch.setattr(TrainingStep, "state_before", state_before)
    monkeypatch.setattr(TrainingStep, "backward", with_gradients)
    return seen


@pytest.mark.parametrize("family", RECURRENT)
def test_the_state_is_carried_detached_and_the_initial_one_learns_from_the_first_batch(train, steps, family):
    settings = dict(STREAMS, steps=3, optimizer="adamw")
    train(family=family, model=dict(model(family), dropout=0.0), training=settings)
    first, second = steps[:2]
    for name, tensor in first["values"].tensors().items():
        assert not tensor.any()                                # learned, but from zeros
        assert first["state"].tensors()[name].requires_grad
        assert not second["state"].tensors()[name].requires_grad and second["values"].tensors()[name].any()
    initial = [name for name in first["gradients"] if name.endswith("_0")]
    assert initial and all(first["gradients"][name].any() for name in initial)
    assert not set(initial) & set(second["gradients"])


@pytest.mark.parametrize("family", RECURRENT)
def test_pieces_of_a_batch_have_the_gradients_of_the_whole_with_a_learned_state(train, steps, family):
    for name, micro in (("whole", 0), ("pieces", 1)):
        train(name, family=family, model=dict(model(family), dropout=0.0),
              training=dict(STREAMS, steps=1, micro_batch=micro))
    whole, pieces = (step["gradients"] for step in steps)
    for name in whole:
        torch.testing.assert_close(pieces[name], whole[name], rtol=1e-4, atol=1e-6)
