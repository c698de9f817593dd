"""Linear recurrences: each form is its equation, and what a watcher is shown is what it does."""

import pytest
import torch

from regard.kernels.matrix_scan import matrix_scan, matrix_scan_loop
from regard.layers.linear_recurrence import (
    GROUPS,
    DiagonalRecurrence,
    GatedRecurrence,
    MatrixRecurrence,
    kernel_by_definition,
    spread_of_memories,
)
from regard.layers.roles import find_roles
from regard.watching import watch

B, T, D, N = 3, 40, 5, 11
FORMS = [DiagonalRecurrence, GatedRecurrence]


def drawn(layer):
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(std=0.5)
    return layer.double()


def inputs(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------------ matrix


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("time", [1, 16, 17, 40, 128, 131])
def test_the_matrix_form_in_parallel_equals_the_loop_and_so_do_its_gradients(time, state):
    w = (torch.linalg.qr(inputs(N, N))[0] * 0.95).requires_grad_()
    b, h = inputs(B, time, N).requires_grad_(), inputs(B, N).requires_grad_()
    given = (w, b, h) if state else (w, b)
    ours, theirs = matrix_scan(*given), matrix_scan_loop(*given)
    close(ours, theirs)
    pull = torch.randn_like(ours)
    for got, expected in zip(*(torch.autograd.grad(y, given, pull, allow_unused=True, materialize_grads=True)
                               for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


def test_the_matrix_form_is_its_equation():
    layer, x = drawn(MatrixRecurrence(D, N)), 0.1 * inputs(B, 6, D)
    h = torch.zeros(B, N, dtype=torch.float64)
    for t in range(6):
        h = h @ layer.w_h.T + x[:, t] @ layer.w_c.T
        close(layer(x)[0][:, t], h)


def test_the_matrix_kernel_is_the_norm_of_what_the_past_goes_through():
    layer, x = drawn(MatrixRecurrence(D, N)), inputs(B, 5, D)
    with watch() as seen:
        layer(x)
    values = seen.of("kernel")[0].values
    assert values.shape == (B, 1, 5, 5)
    for t in range(5):
        for s in range(5):
            power = torch.linalg.matrix_power(layer.w_h, max(0, t - s)) @ layer.w_c
            close(values[0, 0, t, s], power.norm().detach() * (s <= t))


# -------------------------------------------------------------------------------------- diagonal and gated


def by_hand(layer, x, h, last):
    """The equation of the module's docstring, a step at a time, from the weights."""
    outputs = []
    for t in range(x.shape[1]):
        u = (1 - layer.mix) * x[:, t] + layer.mix * last
        last = x[:, t]
        if isinstance(layer, DiagonalRecurrence):
            v, o = (layer.into.weight @ u.T).T.chunk(2, -1)
            a = 1 / (1 + torch.exp(-layer.decay))
            h = a * h + torch.sqrt(1 - a**2) * v
        else:
            v, f, o = (layer.into.weight @ u.T).T.chunk(3, -1)
            a = 1 / (1 + torch.exp(-f - layer.decay))
            h = a * h + (1 - a) * v
        outputs.append((o * h) @ layer.out.weight.T)
    return torch.stack(outputs, 1), h


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_its_equation_from_any_state(form):
    layer, x = drawn(form(D, N)), inputs(B, T, D)
    state = layer.start(B, T)
    state.h, state.last = inputs(B, N), inputs(B, D)
    expected, h = by_hand(layer, x, state.h, state.last)
    y, after = layer(x, state)
    close(y, expected)
    close(after.h, h)
    assert torch.equal(after.last, x[:, -1])
    close(layer(x)[0], by_hand(layer, x, x.new_zeros(B, N), x.new_zeros(B, D))[0])


@pytest.mark.parametrize("form", FORMS)
def test_what_is_shown_at_t_is_the_kernel_times_the_values(form):
    """Checked against the recurrence: o[t] h[t] = sum over s of K[t, s] v[s]."""
    layer, x = drawn(form(D, N)), inputs(B, 7, D)
    terms = layer.terms(layer.mixed(x))
    kernel = kernel_by_definition(terms, 7)                                           # (B, N, T, T)
    assert kernel.shape == (B, N, 7, 7) and not kernel.triu(1).any()
    assert (kernel < 0).any() and (kernel > 0).any()                                  # signs are kept
    shown = torch.einsum("bnts,bsn->btn", kernel, terms.v)
    close(shown @ layer.out.weight.T, layer(x)[0])


@pytest.mark.parametrize("form", FORMS)
def test_what_is_left_of_a_carried_state_is_told_apart(form):
    x = inputs(B, 7, D)
    single = drawn(form(D, 4))                       # as many groups as channels: nothing is averaged
    state = single.start(B, 7)
    state.h, state.last = inputs(B, 4), inputs(B, D)
    with watch() as seen:
        y = single(x, state.clone())[0]
    reading = seen.of("kernel")[0]
    assert reading.about["past"] == "apart"
    shown = torch.einsum("bnts,bsn->btn", reading.values, single.terms(single.mixed(x, state.last)).v)
    shown = shown + reading.about["of_past"].transpose(1, 2) * state.h[:, None]
    close(shown @ single.out.weight.T, y)


@pytest.mark.parametrize("form", FORMS)
def test_a_watcher_sees_the_mean_kernel_of_each_group_of_channels(form):
    layer, x = drawn(form(D, N)), inputs(B, 7, D)
    with watch() as seen:
        layer(x)
    reading = seen.of("kernel")[0]
    assert reading.layer is layer and reading.values.shape == (B, GROUPS, 7, 7)
    groups = reading.about["groups"]
    assert groups[0][0] == 0 and groups[-1][1] == N and reading.about["past"] == "none"
    whole = kernel_by_definition(layer.terms(layer.mixed(x)), 7)
    for g, (begin, end) in enumerate(groups):
        close(reading.values[:, g], whole[:, begin:end].mean(1))


@pytest.mark.parametrize("form", FORMS)
def test_memories_begin_evenly_spread_from_short_to_long(form):
    lengths = 1 / (1 - torch.sigmoid(form(D, 64).decay))
    assert lengths[0] < 2 and lengths[-1] > 60 and (lengths.diff() > 0).all()
    ratios = (1 / (1 - torch.sigmoid(spread_of_memories(8).double()))).log().diff()
    torch.testing.assert_close(ratios, ratios.mean().expand(7), rtol=1e-3, atol=0)


@pytest.mark.parametrize("form", FORMS)
def test_a_long_memory_does_not_make_the_state_large(form):
    """Values of size one give states of about size one or less, for every decay."""
    layer = form(64, 64).double()
    terms = layer.terms(inputs(4, 600, 64))
    h = layer.start(4, 600).h
    for t in range(600):
        at = [x[:, t] if x.ndim == 3 else x for x in (terms.a, terms.c)]
        h = at[0] * h + at[1] * terms.v[:, t] / terms.v.std()
    assert h.std(0).max() < 3


@pytest.mark.parametrize("form", FORMS)
def test_the_state_is_that_after_each_rows_last_real_token(form):
    layer, x = drawn(form(D, N)), inputs(B, T, D)
    _, state = layer(x, layer.start(B, T), torch.tensor([T, 3, 0]))
    close(state.h[1], layer(x[1:2, :3], layer.start(1, 3))[1].h[0])
    assert not state.h[2].any()


@pytest.mark.parametrize("form", FORMS)
def test_half_precision_keeps_its_state_in_float32(form):
    layer, x = form(D, N).bfloat16(), torch.randn(B, T, D).bfloat16()
    y, state = layer(x, layer.start(B, T))
    assert y.dtype == torch.bfloat16 and state.h.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        y, state = form(D, N)(torch.randn(B, T, D), layer.start(B, T))
    assert y.dtype == torch.bfloat16 and state.h.dtype == torch.float32


def test_fused_matrices_are_told_apart_for_the_optimiser():
    assert [find_roles(kind(D, N))["into.weight"].parts for kind in (GatedRecurrence, DiagonalRecurrence)] == [3, 2]
