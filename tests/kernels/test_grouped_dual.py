"""State spaces of heads in groups: every path equals the loop, outputs, last state and gradients."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from regard.kernels import grouped_dual as module
from regard.kernels.grouped_dual import CHUNK, choose_backend, grouped_dual, grouped_dual_loop
from tests.kernels.interpreter import interpret

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SHAPES = [(1, 1, 1, 1, 1, 1), (2, 7, 2, 5, 1, 3), (3, CHUNK + 3, 4, 2, 2, 5), (2, 2 * CHUNK, 6, 3, 3, 4)]
LARGE = [(4, 300, 24, 64, 1, 128), (2, 1000, 6, 48, 3, 96)]                            # B, T, H, P, G, N


def drawn(batch, time, heads, width, groups, states, dtype=torch.float64, device="cpu"):
    """x, the logarithms of the decays, b, c and the state before."""
    shapes = ((batch, time, heads, width), (batch, time, heads), (batch, time, groups, states),
              (batch, time, groups, states), (batch, heads, width, states))
    x, fades, b, c, h = (torch.randn(shape, dtype=dtype, device=device) for shape in shapes)
    return [x, -fades.exp(), b, c, h]


def gradients(scan, inputs, **options):
    inputs = [each.detach().requires_grad_() for each in inputs]
    outputs = scan(*inputs, **options)
    pulls = [torch.arange(y.numel(), device=y.device).cos().view_as(y).to(y.dtype) for y in outputs]
    return [*outputs, *torch.autograd.grad(outputs, inputs, pulls)]


def assert_alike(ours, theirs, near):
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=near * (1 + expected.abs().max().item()),
                                   check_dtype=False)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("state", [True, False])
def test_products_of_matrices_equal_the_loop(shape, dtype, near, state):
    inputs = drawn(*shape, dtype=dtype)[:5 if state else 4]
    assert_alike(gradients(grouped_dual, inputs), gradients(grouped_dual_loop, inputs), near)
    assert choose_backend(inputs[0].device, dtype, 4, 4).name == "torch"


def test_the_definition_is_the_equation_with_the_codes_of_each_heads_group():
    x, fades, b, c, h = drawn(2, 3, 4, 2, 2, 5)
    expected, states = torch.empty_like(x), h.clone()
    for row in range(2):
        for head in range(4):
            for t in range(3):
                written, read = b[row, t, head // 2], c[row, t, head // 2]
                states[row, head] *= fades[row, t, head].exp()
                states[row, head] += torch.outer(x[row, t, head], written)
                expected[row, t, head] = states[row, head] @ read
    y, last = grouped_dual_loop(x, fades, b, c, h)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(last, states, rtol=0, atol=1e-12)


def test_the_path_is_told_with_the_reason(monkeypatch):
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    assert str(choose_backend(cpu, torch.bfloat16, 64, 128)).startswith("torch (the tensors are on cpu")
    monkeypatch.setattr(module.kernels, "reason_on", lambda device: "")
    monkeypatch.setattr(module, "triton_problem", lambda *given: "")
    assert str(choose_backend(cuda, torch.bfloat16, 64, 128)) == "triton"
    assert str(choose_backend(cuda, torch.float32, 64, 128)) == "torch (the Triton kernel multiplies in half precision)"
    assert "heads of up to 64 channels and 128 states" in str(choose_backend(cuda, torch.float16, 64, 512))
    monkeypatch.setattr(module, "triton_problem", lambda *given: "no compiler")
    assert str(choose_backend(cuda, torch.bfloat16, 64, 128)) == "torch (no compiler)"


def test_an_older_gpu_takes_torchs_products(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (8, 0))
    assert module.triton_problem(7, True, 16, 16) == "the Triton kernel is for Hopper GPUs and later ones"


@needs_triton
def test_a_triton_that_does_not_work_is_said_aloud_once():
    """There is no GPU under this name: the try fails, and torch takes over with the reason."""
    with pytest.warns(UserWarning, match="state spaces of heads will be slower: Triton does not work here"):
        assert "Triton does not work here" in module.triton_problem(99, True, 16, 16)


def test_the_compiler_asks_for_the_path_and_does_not_trace_how_it_is_found(monkeypatch):
    torch._dynamo.reset()
    asked = []
    monkeypatch.setattr(module.kernels, "reason_on", lambda device: asked.append(Path(__file__).stat()) or "no GPU")
    inputs = drawn(2, 9, 2, 3, 1, 2)[:4]
    compiled = torch.compile(grouped_dual, fullgraph=True, backend="aot_eager")
    assert_alike(gradients(compiled, inputs), gradients(grouped_dual, inputs), 1e-12)
    assert len(asked) == 2


def test_tritons_operation_has_the_shapes_and_types_that_the_compiler_is_told():
    x, fades, b, c, h = drawn(2, CHUNK + 1, 4, 3, 2, 5, dtype=torch.float32)
    half = x.bfloat16(), fades, b.bfloat16(), c.bfloat16(), h
    with FakeTensorMode() as mode:
        inputs = [mode.from_tensor(each) for each in half]
        outputs = y, last, starts = torch.ops.regard.grouped_dual(*inputs)
        found = torch.ops.regard.grouped_dual_backward(y, last, *inputs[:4], starts)
    assert [(each.shape, each.dtype) for each in outputs] == [
        (x.shape, torch.bfloat16), (h.shape, torch.float32), ((2, 2, 4, 3, 5), torch.bfloat16)]
    assert [(each.shape, each.dtype) for each in found] == [(each.shape, each.dtype) for each in inputs]


@needs_triton
@without_gpu
def test_the_triton_kernels_equal_the_loop_in_the_interpreter():
    assert interpret("grouped_dual_interpreted.py").splitlines()[-1] == "all passed"


@needs_triton
@needs_gpu
@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("state", [True, False])
def test_the_triton_kernels_equal_the_loop_on_the_gpu(shape, state):
    """In half precision no further from float64 than twice what torch's products are."""
    exact = drawn(*shape, device="cuda")[:5 if state else 4]
    half = [each if n in (1, 4) else each.bfloat16() for n, each in enumerate(each.float() for each in exact)]
    right = gradients(grouped_dual_loop, [each.double() for each in half])
    ours, theirs = (gradients(grouped_dual, half, path=path) for path in ("triton", "torch"))
    assert choose_backend(half[0].device, torch.bfloat16, shape[3], shape[5]).name == "triton"
    for got, other, expected in zip(ours, theirs, right, strict=True):
        scale = expected.abs().max().item()
        assert (got - expected).abs().max() <= 2 * (other - expected).abs().max() + 4e-3 * scale
