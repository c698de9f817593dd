"""A few vectors through a matrix, and adding with normalising: the kernels against the definitions."""

import importlib.util

import pytest
import torch
from torch import nn

from regard.kernels import add_norm, linear
from regard.kernels.linear import ACTIVATIONS
from regard.layers.feedforward import FeedForward
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block
from tests.kernels.interpreter import interpret

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_triton
@without_gpu
@pytest.mark.parametrize("trial", ["lines", "norms"])
def test_they_equal_torch_in_the_interpreter(trial):
    interpret("matvec_interpreted.py", trial)


@pytest.mark.parametrize("activation", linear.IN_MATVEC[1:])
def test_activations_are_those_of_the_layers(activation):
    x, weight = torch.randn(3, 5, dtype=torch.float64), torch.randn(7, 5, dtype=torch.float64)
    torch.testing.assert_close(linear.linear(x, weight, None, activation), ACTIVATIONS[activation](x @ weight.T))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["gelu", "relu2", "swiglu"])
def test_a_block_gives_by_them_what_it_gives_in_general(placement, activation, monkeypatch):
    torch.manual_seed(0)
    block = Block(SelfAttention(16, heads=4), FeedForward(16, activation=activation), placement=placement)
    block = block.double().eval()
    x, used = torch.randn(2, 1, 16, dtype=torch.float64), []
    with torch.no_grad():
        expected, _ = block(x, block.start(2, 4))
        monkeypatch.setattr(linear, "takes_few_rows", lambda x, weight: used.append("line") is None)
        monkeypatch.setattr(linear, "matvec", linear.by_definition)
        monkeypatch.setattr(add_norm, "can", lambda x, norm: used.append("norm") is None)
        monkeypatch.setattr(add_norm, "in_triton", add_norm.by_definition)
        ours, _ = block(x, block.start(2, 4))
    torch.testing.assert_close(ours, expected)
    assert {"line", "norm"} <= set(used)


@needs_triton
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows, deep, wide", [(1, 768, 2304), (1, 3072, 768), (4, 768, 3072), (2, 100, 33)])
def test_a_line_on_the_gpu(rows, deep, wide, dtype):
    torch.manual_seed(0)
    x, weight = (torch.randn(*shape, device="cuda", dtype=dtype) for shape in ((rows, 1, deep), (wide, deep)))
    near = dict(rtol=1e-4, atol=1e-3) if dtype == torch.float32 else dict(rtol=3e-2, atol=1.0)
    with torch.no_grad():
        assert linear.takes_few_rows(x, weight)
        for activation in ("", "gelu", "gelu-tanh"):
            expected = linear.by_definition(x.double(), weight.double(), None, activation).to(dtype)
            torch.testing.assert_close(linear.linear(x, weight, None, activation), expected, **near)


@needs_triton
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("norm", [nn.LayerNorm(768, bias=False), nn.RMSNorm(768, eps=1e-5)], ids=["layer", "rms"])
def test_adding_and_normalising_on_the_gpu(norm, dtype):
    norm = norm.to("cuda", dtype)
    x, y = torch.randn(2, 64, 1, 768, device="cuda", dtype=dtype)
    near = 1e-5 if dtype == torch.float32 else 3e-2
    with torch.no_grad():
        assert add_norm.can(x, norm)
        for other in (None, y):
            for ours, expected in zip(add_norm.add_norm(x, other, norm), add_norm.by_definition(x, other, norm),
                                      strict=True):
                torch.testing.assert_close(ours, expected, rtol=near, atol=near)
