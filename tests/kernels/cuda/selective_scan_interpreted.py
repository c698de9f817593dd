"""The Triton selective scan in Triton's interpreter, against the loop; run by test_selective_scan.py on its own.

TRITON_INTERPRET must be set before Triton is first imported, and changes Triton for the whole process.
"""

import torch

from regard.kernels.cuda import selective_scan as selective_scan_triton
from regard.kernels.selective_scan import selective_scan, selective_scan_loop


def drawn(batch, time, width, states):
    x, b, c = (torch.randn(batch, time, size) for size in (width, states, states))
    return [x, torch.rand(batch, time, width), -torch.rand(width, states), b, c, torch.randn(batch, width, states)]


def gradients(scan, inputs, **options):
    inputs = [each.detach().requires_grad_() for each in inputs]
    outputs = scan(*inputs, **options)
    pulls = [torch.arange(y.numel()).cos().view_as(y) for y in outputs]
    return [*outputs, *torch.autograd.grad(outputs, inputs, pulls)]


def equal(inputs):
    ours, theirs = gradients(selective_scan, inputs, path="triton"), gradients(selective_scan_loop, inputs)
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-5 * (1 + expected.abs().max().item()))


def refused(inputs):
    try:
        equal(inputs)
    except AssertionError:
        return
    raise AssertionError("a planted bug went unnoticed")


torch.manual_seed(0)
equal(drawn(1, 1, 1, 1))
equal(drawn(2, 9, 3, 3))                 # a tile and one step; states that are no power of two
equal(drawn(1, 5, 9, 2)[:5])             # a block of channels and one more; no state before
views = drawn(1, 10, 2, 2)
views[0], views[3] = views[0].mT.contiguous().mT, torch.randn(1, 10, 4)[..., 1:3]
equal(views)                             # not contiguous
correct = selective_scan_triton.backward


def without_last_state(dy, dlast, *rest):
    return correct(dy, torch.zeros_like(dlast), *rest)


selective_scan_triton.backward = without_last_state
refused(drawn(1, 3, 2, 2))
print("all passed")
