import pytest
import torch

from regard.errors import SettingError
from regard.layers.recurrent import Elman

B, T, D, N = 3, 7, 5, 8


def drawn(f, dtype=torch.float64):
    layer = Elman(D, N, f=f).to(dtype)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(std=0.5)
    x, h = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((B, T, D), (B, N)))
    return layer, x, h


@pytest.mark.parametrize("dtype, near", [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("f", ["tanh", "relu"])
def test_the_fused_kernel_equals_the_equation_and_so_does_its_gradient(f, dtype, near):
    layer, x, h = drawn(f, dtype)
    state = layer.start(B, T)
    state.h = h
    kernel, definition = layer(x, state)[0], layer.by_definition(x, h)
    assert kernel.shape == (B, T, N)
    torch.testing.assert_close(kernel, definition, rtol=near, atol=near)
    pull, inputs = torch.randn_like(kernel), (x, h, *layer.parameters())
    for ours, theirs in zip(*(torch.autograd.grad(y, inputs, pull) for y in (kernel, definition)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)


def test_without_a_state_it_begins_with_zeros():
    layer, x, _ = drawn("tanh")
    y, state = layer(x)
    assert state is None
    torch.testing.assert_close(y, layer.by_definition(x, x.new_zeros(B, N)), rtol=0, atol=1e-12)


def test_the_state_is_that_after_each_rows_last_real_token():
    layer, x, _ = drawn("tanh")
    lengths = torch.tensor([7, 3, 0])
    y, state = layer(x, layer.start(B, T), lengths)
    assert torch.equal(state.h, torch.stack([y[0, 6], y[1, 2], torch.zeros(N, dtype=torch.float64)]))


def test_an_unknown_nonlinearity_is_refused_with_the_choices():
    with pytest.raises(SettingError, match=r"model.f = 'sigmoid': the recurrent nonlinearity is one of tanh, relu"):
        Elman(D, N, f="sigmoid")
