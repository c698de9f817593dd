"""One decay a head, by products of matrices: equal to the loop, whatever the chunks."""

import pytest
import torch

from regard.kernels.state_space_dual import state_space_dual, state_space_dual_loop


def drawn(batch, time, heads, width, states, dtype=torch.float64):
    """x, the logarithms of the decays, b, c and the state before."""
    shapes = ((batch, time, heads, width), (batch, time, heads), (batch, time, states), (batch, time, states),
              (batch, heads, width, states))
    x, fades, b, c, h = (torch.randn(shape, dtype=dtype) for shape in shapes)
    return [x, -fades.exp(), b, c, h]


def gradients(scan, inputs, **options):
    inputs = [each.detach().requires_grad_() for each in inputs]
    outputs = scan(*inputs, **options)
    pulls = [torch.arange(y.numel()).cos().view_as(y).to(y.dtype) for y in outputs]
    return [*outputs, *torch.autograd.grad(outputs, inputs, pulls)]


@pytest.mark.parametrize("time, chunk", [(1, 4), (3, 4), (4, 4), (8, 4), (11, 4), (70, None)])
@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("state", [True, False])
def test_chunks_equal_the_loop_and_so_do_their_gradients(time, chunk, dtype, near, state):
    inputs = drawn(2, time, 3, 4, 5, dtype)[:5 if state else 4]
    pairs = zip(gradients(state_space_dual, inputs, chunk=chunk), gradients(state_space_dual_loop, inputs), strict=True)
    for got, expected in pairs:
        torch.testing.assert_close(got, expected, rtol=0, atol=near * (1 + expected.abs().max().item()))


def test_decays_beyond_what_can_be_divided_by_stay_finite():
    """exp(-1000) is zero, and a form that divided by it would give NaN."""
    inputs = drawn(1, 9, 2, 3, 4)
    inputs[1] = torch.full_like(inputs[1], -1000.0)
    for got, expected in zip(gradients(state_space_dual, inputs, chunk=4), gradients(state_space_dual_loop, inputs),
                             strict=True):
        assert got.isfinite().all()
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
