"""The Triton state spaces of heads in Triton's interpreter, against the loop; run by test_grouped_dual.py on its own.

TRITON_INTERPRET must be set before Triton is first imported, and changes Triton for the whole process.
"""

import torch

from regard.kernels.cuda import grouped_dual as triton_dual
from regard.kernels.grouped_dual import grouped_dual, grouped_dual_loop


def drawn(batch, time, heads, width, groups, states):
    x, h = torch.randn(batch, time, heads, width), torch.randn(batch, heads, width, states)
    fades = -2 * torch.rand(batch, time, heads)
    return [x, fades, *(torch.randn(batch, time, groups, states) for _ in "bc"), h]


def gradients(scan, inputs, **options):
    inputs = [each.detach().requires_grad_() for each in inputs]
    outputs = scan(*inputs, **options)
    pulls = [torch.arange(y.numel()).cos().view_as(y) for y in outputs]
    return [*outputs, *torch.autograd.grad(outputs, inputs, pulls)]


def equal(inputs):
    ours, theirs = gradients(grouped_dual, inputs, path="triton"), gradients(grouped_dual_loop, inputs)
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-5 * (1 + expected.abs().max().item()))


def refused(inputs):
    try:
        equal(inputs)
    except AssertionError:
        return
    raise AssertionError("a planted bug went unnoticed")


torch.manual_seed(0)
equal(drawn(1, 1, 1, 1, 1, 1))
equal(drawn(2, 65, 2, 3, 1, 5))          # a chunk and one step; sizes that are no powers of two
equal(drawn(1, 130, 4, 17, 2, 18)[:4])   # groups, three chunks, no state before
views = drawn(1, 70, 2, 4, 1, 4)
views[0], views[2] = torch.randn(1, 70, 4, 4).transpose(2, 3)[:, :, ::2], torch.randn(1, 70, 1, 9)[..., 2:6]
equal(views)                             # not contiguous
still = drawn(1, 70, 2, 4, 1, 4)
still[1] = torch.full_like(still[1], -200.0)
equal(still)                             # all is forgotten at every step: nothing is divided by
short = [each if n in (1, 4) else each.half() for n, each in enumerate(drawn(1, 70, 2, 4, 1, 4))]
exact = gradients(grouped_dual_loop, [each.double() for each in short])
for got, expected, given in zip(gradients(grouped_dual, short, path="triton"), exact, (short[0], short[4], *short),
                                strict=True):
    assert got.dtype == given.dtype and (got - expected).abs().max() < 5e-3 * (1 + expected.abs().max())
triton_dual.PROGRAMS = 1                 # all heads of a group in one program
equal(drawn(1, 66, 6, 2, 2, 3))

correct = triton_dual.backward


def without_last_state(dy, dlast, *rest):
    return correct(dy, torch.zeros_like(dlast), *rest)


triton_dual.backward = without_last_state
refused(drawn(1, 3, 2, 2, 1, 2))
triton_dual.backward = correct
passed = triton_dual.pass_states


def without_carrying(*given):
    starts, last, through = passed(*given)
    starts[:, 1:] = 0
    return starts, last, through


def without_going_through(*given):
    starts, last, through = passed(*given)
    return starts, last, 0 * through


for wrong in (without_carrying, without_going_through):
    triton_dual.pass_states = wrong
    refused(drawn(1, 66, 2, 2, 1, 2))
print("all passed")
