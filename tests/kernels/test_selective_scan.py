"""The selective scan: every path equals the loop, outputs, last state and gradients."""

import importlib.util

import pytest
import torch

from regard.kernels import selective_scan as module
from regard.kernels.selective_scan import CHUNK, choose_backend, selective_scan, selective_scan_loop
from tests.kernels.interpreter import interpret

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SHAPES = [(1, 1, 1, 1), (2, CHUNK, 5, 3), (3, 2 * CHUNK + 3, 4, 2), (2, CHUNK + 1, 9, 16)]         # B, T, D, N


def drawn(batch, time, width, states, dtype=torch.float64, device="cpu"):
    """x, delta, a, b, c and the state before."""
    shapes = ((batch, time, width), (batch, time, width), (width, states), (batch, time, states), (batch, time, states),
              (batch, width, states))
    x, delta, a, b, c, h = (torch.randn(shape, dtype=dtype, device=device) for shape in shapes)
    return [each.requires_grad_() for each in (x, delta.sigmoid(), -a.exp(), b, c, h)]


def gradients(scan, inputs, **options):
    """y, the last state, and the gradients of a sum in which both are weighted."""
    inputs = [each.detach().requires_grad_() for each in inputs]
    outputs = scan(*inputs, **options)
    pulls = [torch.arange(y.numel(), device=y.device).cos().view_as(y).to(y.dtype) for y in outputs]
    return [*outputs, *torch.autograd.grad(outputs, inputs, pulls)]


def assert_alike(ours, theirs, near):
    for got, expected in zip(ours, theirs, strict=True):
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected, rtol=0, atol=near * (1 + expected.abs().max().item()))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("state", [True, False])
def test_plain_torch_equals_the_loop(shape, dtype, near, state):
    inputs = drawn(*shape, dtype=dtype)[:6 if state else 5]
    assert_alike(gradients(selective_scan, inputs), gradients(selective_scan_loop, inputs), near)
    assert choose_backend(inputs[0].device, dtype).name == "torch"


def test_the_definition_is_the_equation():
    x, delta, a, b, c, h = (each.detach() for each in drawn(1, 2, 1, 1))
    first = (delta[0, 0, 0] * a[0, 0]).exp() * h[0, 0, 0] + delta[0, 0, 0] * b[0, 0, 0] * x[0, 0, 0]
    second = (delta[0, 1, 0] * a[0, 0]).exp() * first + delta[0, 1, 0] * b[0, 1, 0] * x[0, 1, 0]
    y, last = selective_scan_loop(x, delta, a, b, c, h)
    torch.testing.assert_close(y[0, :, 0], c[0, :, 0] * torch.stack((first, second)))
    torch.testing.assert_close(last[0, 0, 0], second)


def test_half_precision_keeps_its_state_in_float32_and_gives_each_gradient_its_own_type():
    inputs = [each.detach().to(torch.bfloat16) for each in drawn(2, 11, 3, 4)]
    inputs[1], inputs[2] = inputs[1].float(), inputs[2].float()
    y, last, *found = gradients(selective_scan, inputs)
    assert y.dtype == torch.bfloat16 and last.dtype == torch.float32
    assert [each.dtype for each in found] == [each.dtype for each in inputs]
    exact = selective_scan_loop(*(each.double() for each in inputs))
    torch.testing.assert_close(y.double(), exact[0], rtol=0.02, atol=0.02)
    torch.testing.assert_close(last.double(), exact[1], rtol=1e-5, atol=1e-5)


def test_the_whole_of_the_states_is_never_held():
    x, delta, a, b, c, _ = drawn(1, 64 * CHUNK, 8, 4)
    *_, starts = torch.ops.regard.selective_scan(x, delta, a, b, c, None, "auto")
    assert starts.shape == (64, 1, 4, 8)


def test_it_is_one_operation_to_the_compiler_and_gives_the_same_there():
    torch._dynamo.reset()
    inputs = drawn(2, CHUNK + 2, 3, 2)
    compiled = torch.compile(selective_scan, fullgraph=True, backend="aot_eager")
    assert_alike(gradients(compiled, inputs), gradients(selective_scan, inputs), 0)
    torch.library.opcheck(torch.ops.regard.selective_scan.default, (*inputs, "auto"))


def test_the_path_is_told_with_the_reason(monkeypatch):
    assert str(choose_backend(torch.device("cpu"), torch.float32)).startswith("torch (the tensors are on cpu")
    monkeypatch.setattr(module.kernels, "reason_on", lambda device: "")
    monkeypatch.setattr(module, "triton_problem", lambda index: "")
    cuda = torch.device("cuda", 0)
    assert str(choose_backend(cuda, torch.float32)) == "triton"
    assert str(choose_backend(cuda, torch.float64)) == "torch (the Triton kernel computes in float32)"
    monkeypatch.setattr(module, "triton_problem", lambda index: "no compiler")
    assert str(choose_backend(cuda, torch.bfloat16)) == "torch (no compiler)"


@needs_triton
def test_a_triton_that_does_not_work_is_said_aloud_once():
    """There is no GPU under this name: the try fails, and torch takes over with the reason."""
    module.triton_problem.cache_clear()
    with pytest.warns(UserWarning, match="selective scans will be slow: Triton does not work here"):
        assert "Triton does not work here" in module.triton_problem(99)
    module.triton_problem.cache_clear()


@needs_triton
@without_gpu
def test_the_triton_kernels_equal_the_loop_in_the_interpreter():
    assert interpret("selective_scan_interpreted.py").splitlines()[-1] == "all passed"


@needs_triton
@needs_gpu
@pytest.mark.parametrize("shape", [*SHAPES, (8, 300, 130, 16), (1, 1000, 1536, 16)], ids=str)
@pytest.mark.parametrize("state", [True, False])
def test_the_triton_kernels_equal_the_loop_on_the_gpu(shape, state):
    inputs = drawn(*shape, dtype=torch.float32, device="cuda")[:6 if state else 5]
    assert_alike(gradients(selective_scan, inputs), gradients(selective_scan_loop, inputs), 1e-5)
    assert choose_backend(inputs[0].device, torch.float32).name == "triton"
