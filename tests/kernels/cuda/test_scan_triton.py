"""The Triton scan: in Triton's interpreter everywhere, and on the GPU where there is one."""

import importlib.util

import pytest
import torch

from regard.kernels.scan import scan, scan_loop
from tests.kernels.interpreter import interpret

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_triton
@without_gpu
def test_forward_and_backward_equal_the_loop_in_the_interpreter():
    trials = ["shapes", "state", "segments", "layouts", "planted"]
    assert interpret("scan_interpreted.py", *trials).splitlines() == [f"{trial}: passed" for trial in trials]


@needs_triton
@needs_gpu
@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1000, 40), (2, 129, 33), (1, 5000, 8), (8, 300, 1024)], ids=str)
@pytest.mark.parametrize("state", [True, False])
def test_forward_and_backward_equal_the_loop_on_the_gpu(shape, dtype, near, state):
    batch, _, width = shape
    inputs = [torch.randn(shape, dtype=dtype, device="cuda").tanh(), torch.randn(shape, dtype=dtype, device="cuda"),
              *([torch.randn(batch, width, dtype=dtype, device="cuda")] if state else [])]
    inputs = [x.requires_grad_() for x in inputs]
    ours, theirs = scan(*inputs, path="triton"), scan_loop(*inputs)
    pull = torch.randn_like(ours)
    pairs = zip((ours, *torch.autograd.grad(ours, inputs, pull)), (theirs, *torch.autograd.grad(theirs, inputs, pull)),
                strict=True)
    for got, expected in pairs:
        torch.testing.assert_close(got, expected, rtol=0, atol=near * (1 + expected.abs().max().item()))
