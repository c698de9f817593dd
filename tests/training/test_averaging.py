"""The average of the weights, in numpy: w' = d w' + (1 - d) w, with d = min(decay, (1 + n) / (10 + n))."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.run_folder import RunFolder
from regard.training.averaging import Average
from regard.training.step import update_weights


def averaged(weights, decay):
    """The average after all updates, from the weights before the first one and after each."""
    mean = weights[0]
    for n, new in enumerate(weights[1:], 1):
        d = min(decay, (1 + n) / (10 + n))
        mean = d * mean + (1 - d) * new
    return mean


def moved(model, average, steps, seed):
    """The weights before and after each update: the model wanders, the average follows."""
    seen, chance = [], torch.Generator().manual_seed(seed)
    for step in range(steps + 1):
        if step:
            average.next()
            with torch.no_grad():
                for weight in model.parameters():
                    weight += torch.randn(weight.shape, generator=chance, dtype=weight.dtype)
            average.update()
        seen.append({name: weight.detach().numpy().copy() for name, weight in model.named_parameters()})
    return seen


@pytest.mark.parametrize("decay", [0.15, 0.9])                       # reached at once, and after the warm-up only
def test_the_average_is_its_equation(decay):
    model = nn.Linear(3, 2).double()
    average = Average(model, decay)
    seen = moved(model, average, 12, seed=0)
    for name in ("weight", "bias"):
        expected = averaged([weights[name] for weights in seen], decay)
        np.testing.assert_allclose(average.weights[name].numpy(), expected, rtol=1e-12)
        assert np.abs(expected - seen[0][name]).max() > 0.1          # it has left the first weights
        assert np.abs(expected - seen[-1][name]).max() > 0.1         # and does not stand at the last


def test_the_model_has_averaged_weights_for_the_length_of_a_block_even_of_one_that_fails():
    model = nn.Linear(3, 2).double()
    average = Average(model, 0.9)
    last = moved(model, average, 3, seed=1)[-1]
    with pytest.raises(ZeroDivisionError), average.in_place():
        assert torch.equal(model.weight, average.weights["weight"]) and torch.equal(model.bias, average.weights["bias"])
        assert not np.array_equal(model.weight.detach().numpy(), last["weight"])
        raise ZeroDivisionError
    assert np.array_equal(model.weight.detach().numpy(), last["weight"])


def test_an_average_that_was_saved_goes_on_as_if_never_saved():
    model, other = nn.Linear(3, 2).double(), nn.Linear(3, 2).double()
    average = Average(model, 0.9)
    moved(model, average, 3, seed=2)
    other.load_state_dict(model.state_dict())
    again = Average(other, 0.9)
    again.load({name: value.clone() for name, value in average.weights.items()})
    moved(model, average, 3, seed=3)
    moved(other, again, 3, seed=3)
    assert int(average.updates) == int(again.updates) == 6
    for name, weight in average.weights.items():
        assert torch.equal(weight, again.weights[name]), name


def test_a_run_validates_and_keeps_the_average_of_its_steps(train, tmp_path, monkeypatch):
    """What lies in model.safetensors is the numpy average of the weights that the optimiser gave, step by step."""
    seen = []

    def recorded(optimizers, average):
        if not seen:
            seen.append({name: weight.detach().numpy().copy() for weight, name in optimizers.names.items()})
        update_weights(optimizers, average)
        seen.append({name: weight.detach().numpy().copy() for weight, name in optimizers.names.items()})

    monkeypatch.setattr("regard.training.step.update_weights", recorded)
    train(training=dict(steps=4, valid_every=4, ema=0.9, learning_rate=3e-2))
    kept = RunFolder(tmp_path / "run").read_weights()
    assert len(seen) == 5
    for name, found in kept.items():
        expected = averaged([weights[name] for weights in seen], 0.9)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-6, err_msg=name)
    assert any(np.abs(found.numpy() - seen[-1][name]).max() > 1e-3 for name, found in kept.items())
