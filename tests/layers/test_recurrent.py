"""The recurrent layers: the fused kernels equal their equations, gradients included, and keep the right state."""

import math

import pytest
import torch

from regard.errors import SettingError
from regard.kernels.cpu import onednn
from regard.layers.gated import GRU, LSTM
from regard.layers.recurrent import Elman
from regard.layers.roles import find_roles

B, T, D, N = 3, 7, 5, 8
KINDS = {"tanh": lambda **how: Elman(D, N, f="tanh", **how), "relu": lambda **how: Elman(D, N, f="relu", **how),
         "gru": lambda **how: GRU(D, N, **how), "lstm": lambda **how: LSTM(D, N, **how)}


def drawn(kind, dtype=torch.float64, **how):
    """A layer with weights that hide nothing, an input, and a state in which something is known."""
    layer = KINDS[kind](**how).to(dtype)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(std=0.5)
    state = layer.start(B, T).map(lambda t: torch.randn_like(t).requires_grad_())
    return layer, torch.randn(B, T, D, dtype=dtype, requires_grad=True), state


def vectors(state):
    return tuple(state.tensors().values())


@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 2e-5)], ids=str)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_fused_kernel_equals_the_equation_and_so_does_its_gradient(kind, layers, dtype, near):
    layer, x, state = drawn(kind, dtype, layers=layers)
    y, after = layer(x, state)
    kernel, definition = (y, *vectors(after)), layer.by_definition(x, vectors(state))
    definition = (definition[0], *definition[1])
    assert y.shape == (B, T, N) and all(each.shape == (B, layers, N) for each in kernel[1:])
    pulls, inputs = [torch.randn_like(each) for each in kernel], (x, *vectors(state), *layer.parameters())
    for ours, theirs in zip(kernel, definition, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)
    for ours, theirs in zip(*(torch.autograd.grad(each, inputs, pulls) for each in (kernel, definition)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)


@pytest.mark.parametrize("initial", ["zero", "learned"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_state_it_begins_as_start_does(kind, initial):
    layer, x, _ = drawn(kind, layers=2, initial=initial)
    y, state = layer(x)
    first = vectors(layer.start(B, T))
    assert state is None
    assert any(each.abs().max() > 0 for each in first) == (initial == "learned")
    torch.testing.assert_close(y, layer.by_definition(x, first)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("read", [lambda layer, x: layer(x)[0], lambda layer, x: layer(x, layer.start(B, T))[0]],
                         ids=["whole", "with a state"])
@pytest.mark.parametrize("kind", ["tanh", "gru", "lstm"])
def test_a_learned_initial_state_learns(kind, read):
    layer, x, _ = drawn(kind, layers=2, initial="learned")
    read(layer, x).sum().backward()
    names = [name for name in dict(layer.named_parameters()) if name.endswith("_0")]
    assert names == (["h_0", "c_0"] if kind == "lstm" else ["h_0"])
    assert all(getattr(layer, name).grad.abs().min() > 0 and getattr(layer, name).ndim == 1 for name in names)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_state_is_that_after_each_rows_last_real_token(kind, layers):
    layer, x, state = drawn(kind, layers=layers)
    y, after = layer(x, state, torch.tensor([7, 3, 0]))
    for row, length in enumerate((7, 3)):
        alone = state.map(lambda t: t[row : row + 1])                                            # noqa: B023
        expected_y, expected = layer.by_definition(x[row : row + 1, :length], vectors(alone))
        torch.testing.assert_close(y[row : row + 1, :length], expected_y, rtol=0, atol=1e-12)
        for ours, theirs in zip(vectors(after), expected, strict=True):
            torch.testing.assert_close(ours[row : row + 1], theirs, rtol=0, atol=1e-12)
    for ours, before in zip(vectors(after), vectors(state), strict=True):
        assert torch.equal(ours[2], before[2])


@pytest.mark.parametrize("kind", KINDS)
def test_weights_go_by_the_names_of_the_equation_and_each_stands_once(kind):
    layer = KINDS[kind](layers=2)
    names = list(dict(layer.named_parameters()))
    assert names == ["w_h", "w_c", "b_h", "b_c", "w_h2", "w_c2", "b_h2", "b_c2"]
    assert sum(p.numel() for p in layer.parameters()) == sum(p.numel() for p in layer.kernel.parameters())


@pytest.mark.parametrize("kind, gates", [("tanh", 1), ("gru", 3), ("lstm", 4)])
def test_each_gates_matrix_is_orthogonal_and_known_as_a_matrix_of_its_own(kind, gates):
    layer = KINDS[kind](layers=2).double()
    parts = {name: role.parts for name, role in find_roles(layer).items()}
    assert parts == {name: gates if name.startswith("w_") else 1 for name, _ in layer.named_parameters()}
    for each in range(2):
        weights = layer.weights(each)
        for gate in weights.w_h.chunk(gates):
            torch.testing.assert_close(gate @ gate.T, torch.eye(N, dtype=torch.float64), rtol=0, atol=1e-5)


def test_the_forget_gate_of_an_lstm_starts_open():
    weights = KINDS["lstm"]().weights(0)
    assert (weights.b_h + weights.b_c).chunk(4)[1].eq(1).all()
    assert (weights.b_h + weights.b_c).abs().sum() == N


@pytest.mark.parametrize("kind", ["tanh", "gru", "lstm"])
def test_what_each_layer_gives_is_dropped_out_in_training_only(kind):
    torch.manual_seed(0)
    layer = KINDS[kind](layers=2, dropout=0.5)
    x = torch.randn(8, 40, D)
    dropped = (layer(x)[0] == 0).float().mean()
    assert abs(dropped - 0.5) < 0.1
    below = layer.by_definition(x[:, :1], layer.first(8))[0]
    assert not torch.equal(below, layer.by_definition(x[:, :1], layer.first(8))[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0]) and layer(x)[0].all()


def test_a_state_keeps_its_type_where_the_arithmetic_is_narrower():
    layer = LSTM(D, N, layers=2)
    state = layer.start(B, T)
    with torch.autocast("cpu", torch.bfloat16):
        for time in (3, 1):
            y, state = layer(torch.randn(B, time, D).bfloat16(), state, torch.tensor([1, 1, 0]))
            assert y.isfinite().all()
            assert {each.dtype for each in vectors(state)} == {torch.float32}


@pytest.mark.parametrize("lengths", [None, [3, 1, 2]])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cpu_without_bfloat16_reads_in_float32(monkeypatch, kind, dropout, lengths):
    """There torch's LSTM ends with an error when it is asked for bfloat16, whole or packed."""
    monkeypatch.setattr(onednn, "has_bfloat16", lambda: False)
    layer, x = KINDS[kind](layers=2, dropout=dropout), torch.randn(B, 3, D)
    read = []
    for narrow in (True, False):
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            state = None if lengths is None else layer.start(B, T)
            read.append(layer(x, state, lengths if lengths is None else torch.tensor(lengths))[0])
    assert torch.equal(*read) and read[0].dtype == torch.float32


def test_an_lstm_can_keep_what_a_simple_recurrence_loses():
    """With the forget gate open and the input gate shut, the cell is the same after a thousand steps."""
    layer = LSTM(D, N).double()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        i, f, _, _ = layer.b_c.chunk(4)
        i.fill_(-math.inf), f.fill_(math.inf)
    state = layer.start(B, 1000).map(torch.randn_like)
    _, after = layer(torch.randn(B, 1000, D, dtype=torch.float64), state.clone())
    assert torch.equal(after.c, state.c)


@pytest.mark.parametrize("make, message", [
    (lambda: Elman(D, N, f="sigmoid"), "model.f = 'sigmoid': the recurrent nonlinearity is one of tanh, relu"),
    (lambda: LSTM(D, N, initial="ones"), "model.initial = 'ones': the initial state is one of zero, learned"),
])
def test_unknown_choices_are_refused_with_those_there_are(make, message):
    with pytest.raises(SettingError, match=message):
        make()


@pytest.mark.parametrize("initial", ["zero", "learned"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("carried", [False, True], ids=["whole", "from a state"])
def test_a_layer_at_a_time_is_what_the_kernel_gives(kind, carried, initial):
    layer, x, state = drawn(kind, layers=3, dropout=0.5, initial=initial)
    state = state if carried else None
    expected, after = layer.eval()(x, state)
    layer.train().dropout = torch.nn.Identity()               # between the layers and after them
    found, own = layer(x, state)
    torch.testing.assert_close(found, expected)
    if carried:
        torch.testing.assert_close(vectors(own), vectors(after))


def test_dropout_stands_between_the_layers(monkeypatch):
    layer, seen = LSTM(D, N, layers=3, dropout=0.5), []
    monkeypatch.setattr(type(layer.dropout), "forward", lambda self, x: seen.append(x.shape) or 0 * x)
    layer.train()(torch.randn(B, T, D))
    assert seen == [(B, T, N)] * 3
