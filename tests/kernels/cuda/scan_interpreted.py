"""The Triton scan in Triton's interpreter, against the loop; run by test_scan_triton.py in a process of its own.

TRITON_INTERPRET must be set before Triton is first imported, and changes Triton for the whole process.
"""

import os
import sys
from functools import partial

os.environ["TRITON_INTERPRET"] = "1"

import torch

from regard.kernels.cuda import scan as in_triton
from regard.kernels.scan import scan, scan_loop

NEAR = {torch.float64: 1e-12, torch.float32: 1e-5}
scan_in_triton = partial(scan, path="triton")


def gradients(way, inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    y = way(*inputs)
    pull = torch.arange(y.numel(), dtype=torch.float64).cos().view_as(y).to(y.dtype)
    return [y, *torch.autograd.grad(y, inputs, pull)]


def equal(*inputs, near=1e-12):
    for ours, theirs in zip(gradients(scan_in_triton, inputs), gradients(scan_loop, inputs), strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def small_tiles(segments):
    knobs = in_triton.Knobs(block_t=4, run=2, block_d=4, segments=segments)
    in_triton.forward.__defaults__ = in_triton.backward.__defaults__ = (knobs,)


def shapes():
    """Lengths and widths that do and do not fill their tiles."""
    small_tiles(1)
    for time, width, dtype in ((1, 1, torch.float64), (4, 4, torch.float32), (7, 5, torch.float64)):
        a, b = drawn(2, time, width, dtype=dtype), drawn(2, time, width, dtype=dtype)
        equal(a, b, near=NEAR[dtype])


def state():
    """A state before the first position."""
    small_tiles(1)
    equal(drawn(2, 5, 3), drawn(2, 5, 3), drawn(2, 3))


def segments():
    """Time cut into segments, the last one shorter."""
    small_tiles(3)
    equal(drawn(1, 10, 3), drawn(1, 10, 3), drawn(1, 3))


def layouts():
    """A constant decay over a slice of a wider tensor; half precision, and mixed types."""
    small_tiles(1)
    _, b = drawn(1, 5, 8).chunk(2, -1)
    equal(torch.rand(4, dtype=torch.float64), b)
    half = [drawn(1, 5, 4, dtype=torch.float32).clamp(-1, 1).bfloat16() for _ in range(2)]
    ours, exact = scan_in_triton(*half), scan_loop(*(x.float() for x in half))
    torch.testing.assert_close(ours, exact.bfloat16(), rtol=1e-2, atol=1e-2)
    assert scan_in_triton(half[0].float(), half[1]).dtype == torch.float32


def planted():
    """A backward that forgets to look one position ahead must be heard."""
    small_tiles(1)
    right = in_triton.backward
    in_triton.backward = lambda a, h, h0, dh: right(a.roll(1, 1), h, h0, dh)
    try:
        equal(drawn(1, 5, 3), drawn(1, 5, 3))
    except AssertionError:
        return
    finally:
        in_triton.backward = right
    raise SystemExit("a wrong gradient passed unheard")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for trial in sys.argv[1:]:
        torch.manual_seed(0)
        {"shapes": shapes, "state": state, "segments": segments, "layouts": layouts, "planted": planted}[trial]()
        print(f"{trial}: passed")
