"""The Triton kernel of the loss: in Triton's interpreter everywhere, and on the GPU where there is one."""

import importlib.util

import pytest
import torch

from regard.kernels.cross_entropy import by_definition, linear_cross_entropy
from tests.kernels.interpreter import interpret

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_triton
@without_gpu
@pytest.mark.parametrize("trial", ["plain", "rising", "smoothed", "capped"])
def test_it_equals_torch_in_the_interpreter(trial):
    interpret("cross_entropy_interpreted.py", trial)


@needs_triton
@needs_gpu
@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1}, {"softcap": 3.0}, {"smoothing": 0.2, "softcap": 2.0}],
                         ids=str)
@pytest.mark.parametrize("vocab", [11, 1000, 50_304])
def test_it_equals_the_definition_on_the_gpu(vocab, options):
    h, weight = (torch.randn(*shape, device="cuda", requires_grad=True) for shape in ((300, 32), (vocab, 32)))
    targets, shares = torch.randint(vocab, (300,), device="cuda"), torch.rand(300, device="cuda")
    results = []
    for way in (linear_cross_entropy, by_definition):
        loss = way(h, weight, targets, shares, **options)
        results.append([loss, *torch.autograd.grad(loss, [h, weight])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
