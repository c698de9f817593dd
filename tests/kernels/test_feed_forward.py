import torch
import torch.nn.functional as F

from regard.kernels.linear import gelu_tanh


def test_gpt2s_activation_is_the_same_function_however_it_is_computed(monkeypatch):
    x = torch.linspace(-12, 12, 4001, dtype=torch.float64, requires_grad=True)
    expected = F.gelu(x, approximate="tanh")
    (slope,) = torch.autograd.grad(expected.sum(), x)
    torch.testing.assert_close(gelu_tanh(x), expected)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    compiled = gelu_tanh(x)
    torch.testing.assert_close(compiled, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(compiled.sum(), x)[0], slope, rtol=1e-10, atol=1e-10)
    assert (expected - F.gelu(x)).abs().max() > 1e-4                       # and not the exact one
