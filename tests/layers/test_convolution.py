import pytest
import torch
import torch.nn.functional as F

from regard.errors import SettingError
from regard.layers.convolution import CausalConvolution

B, T, D = 3, 7, 5


@pytest.mark.parametrize("taps", [1, 2, 4, 9])
def test_it_is_torchs_convolution_of_the_sequence_with_zeros_before_it(taps):
    layer = CausalConvolution(D, taps=taps).double()
    torch.nn.init.normal_(layer.bias)
    x = torch.randn(B, T, D, dtype=torch.float64)
    expected = F.conv1d(F.pad(x.mT, (taps - 1, 0)), layer.weight, layer.bias, groups=D).mT
    torch.testing.assert_close(layer(x)[0], expected, rtol=0, atol=1e-12)


def test_the_tail_is_the_last_real_inputs_of_each_row():
    layer = CausalConvolution(D, taps=4)
    x = torch.randn(B, T, D)
    state = layer.start(B, capacity=T)
    state.inputs = before = torch.randn(B, 3, D)
    _, after = layer(x, state, torch.tensor([7, 1, 0]))
    assert torch.equal(after.inputs[0], x[0, 4:7])
    assert torch.equal(after.inputs[1], torch.cat((before[1, 1:], x[1, :1])))
    assert torch.equal(after.inputs[2], before[2])


def test_a_convolution_of_nothing_is_refused():
    with pytest.raises(SettingError, match=r"model.conv = 0: a convolution reads at least its own position"):
        CausalConvolution(D, taps=0)
