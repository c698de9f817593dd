"""The window: the last k inputs and no other, each place with weights of its own."""

import pytest
import torch

from regard.errors import SettingError
from regard.layers.convolution import tail_after
from regard.layers.perceptron import NONLINEARITIES, Perceptron
from regard.layers.window import Window

B, T, D, N = 3, 8, 4, 6


def by_definition(layer, x, t):
    """f(W_1 x[t-k+1] + ... + W_k x[t] + b), with zeros before the text."""
    places = layer.mix.weight.split(D, 1)
    total = layer.mix.bias.expand(B, -1)
    for back, place in enumerate(reversed(places)):
        if t - back >= 0:
            total = total + x[:, t - back] @ place.T
    return NONLINEARITIES[layer.activation](total)


@pytest.mark.parametrize("words", [1, 2, 5, 12])
@pytest.mark.parametrize("activation", NONLINEARITIES)
def test_a_window_equals_its_definition(words, activation):
    layer = Window(D, N, words=words, activation=activation).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    y, state = layer(x)
    assert state is None
    for t in range(T):
        torch.testing.assert_close(y[:, t], by_definition(layer, x, t), rtol=0, atol=1e-12)


@pytest.mark.parametrize("words", [1, 3])
def test_what_left_the_window_does_not_matter_and_what_is_in_it_does(words):
    layer, x = Window(D, N, words=words, activation="tanh"), torch.randn(B, T, D)
    other = x.clone()
    other[:, 2] += 1
    changed = (layer(x)[0] != layer(other)[0]).any(-1).all(0)
    assert changed.tolist() == [2 <= t < 2 + words for t in range(T)]


def test_the_last_real_inputs_of_rows_of_any_length():
    before = torch.arange(6.0).view(1, 3, 2).repeat(4, 1, 1)
    x = 10 + torch.arange(10.0).view(1, 5, 2).repeat(4, 1, 1)
    seen = torch.cat((before, x), 1)
    after = tail_after(seen, torch.tensor([5, 2, 0, 3]), 3)
    both = torch.cat((before[0], x[0]))
    for row, n in enumerate((5, 2, 0, 3)):
        assert torch.equal(after[row], both[: 3 + n][-3:])
    assert torch.equal(tail_after(seen, None, 3), after[:1].expand(4, -1, -1))


def test_a_perceptron_is_its_layers_one_after_another():
    layer, x = Perceptron(D, N, layers=2, activation="tanh").double(), torch.randn(B, T, D, dtype=torch.float64)
    first, second = layer.hidden
    expected = torch.tanh(torch.tanh(x @ first.weight.T + first.bias) @ second.weight.T + second.bias)
    torch.testing.assert_close(layer(x)[0], expected, rtol=0, atol=1e-12)
    assert layer.start(B, T) is None


@pytest.mark.parametrize("make", [lambda f: Window(D, N, words=2, activation=f),
                                  lambda f: Perceptron(D, N, activation=f)], ids=["window", "perceptron"])
def test_an_unknown_nonlinearity_is_refused_with_the_choices(make):
    with pytest.raises(SettingError, match=r"model\.activation = 'sine': choose one of relu, gelu, tanh"):
        make("sine")
