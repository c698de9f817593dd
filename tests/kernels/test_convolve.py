"""The causal convolution: every path is the sum of the equation, outputs and gradients."""

import importlib.util

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from regard.kernels.convolve import convolve
from tests.kernels.interpreter import interpret

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SHAPES = [(1, 1, 1, 1), (2, 3, 5, 4), (3, 65, 7, 2), (2, 130, 129, 4)]                 # B, T, D, K


def by_equation(x, weight, bias):
    """y[t] = bias + sum over j of weight[j] x[t - K + 1 + j], an element at a time."""
    taps = weight.shape[1]
    rows = []
    for t in range(x.shape[1]):
        terms = [weight[:, j] * x[:, t - taps + 1 + j] for j in range(taps) if t - taps + 1 + j >= 0]
        rows.append(bias + sum(terms))
    return torch.stack(rows, 1)


def gradients(way, inputs, **options):
    inputs = [each.detach().requires_grad_() for each in inputs]
    y = way(*inputs, **options)
    pull = torch.arange(y.numel(), device=y.device).cos().bfloat16().view_as(y).to(y.dtype)     # the same in all types
    return [y, *torch.autograd.grad(y, inputs, pull)]


def drawn(batch, time, width, taps, dtype=torch.float64, device="cpu"):
    return [torch.randn(shape, dtype=dtype, device=device) for shape in ((batch, time, width), (width, taps), (width,))]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_definition_is_the_equation(shape):
    inputs = drawn(*shape)
    for got, expected in zip(gradients(convolve, inputs), gradients(by_equation, inputs), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_tritons_operation_has_the_shapes_and_types_that_the_compiler_is_told():
    x, weight, bias = drawn(2, 5, 6, 3, torch.bfloat16)
    with FakeTensorMode() as mode:
        x, weight, bias = (mode.from_tensor(each) for each in (x, weight, bias))
        y = torch.ops.regard.convolve(x[..., 1:4], weight[1:4], bias[1:4])
        found = torch.ops.regard.convolve_backward(y, x[..., 1:4], weight[1:4])
    assert y.shape == (2, 5, 3) and y.is_contiguous() and y.dtype == torch.bfloat16
    assert [each.shape for each in found] == [(2, 5, 3), (3, 3), (3,)]


@needs_triton
@without_gpu
def test_the_triton_kernels_equal_the_equation_in_the_interpreter():
    assert interpret("convolve_interpreted.py").splitlines()[-1] == "all passed"


@needs_triton
@needs_gpu
@pytest.mark.parametrize("shape", [*SHAPES, (4, 1000, 1792, 4)], ids=str)
@pytest.mark.parametrize("dtype, near", [(torch.float32, 1e-5), (torch.bfloat16, 8e-3)], ids=str)
def test_the_triton_kernels_equal_the_equation_on_the_gpu(shape, dtype, near):
    inputs = [each.to(dtype) for each in drawn(*shape, device="cuda")]
    right = gradients(convolve, [each.double() for each in inputs], path="torch")
    for got, expected in zip(gradients(convolve, inputs, path="triton"), right, strict=True):
        assert got.dtype == dtype
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=near * (1 + expected.abs().max().item()))


@needs_triton
@needs_gpu
def test_the_gpu_takes_triton_also_when_compiled_and_of_a_slice():
    wide, weight, bias = drawn(2, 70, 40, 4, torch.float32, "cuda")
    inputs = [wide[..., 8:24].detach(), weight[8:24], bias[8:24]]
    compiled = torch.compile(lambda *given: convolve(given[0] * 2, *given[1:]), fullgraph=True)
    right = gradients(lambda x, *rest: by_equation(2 * x, *rest), [each.double() for each in inputs])
    for got, expected in zip(gradients(compiled, inputs), right, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-4)
