import pytest
import torch

from regard.layers.bidirectional import Bidirectional, turned
from regard.layers.gated import LSTM
from regard.layers.recurrent import Elman
from regard.layers.whole import mean_of_real

B, T, D, N = 3, 5, 4, 3


@pytest.fixture(params=[Elman, LSTM])
def layer(request):
    torch.manual_seed(0)
    return Bidirectional(request.param(D, N), request.param(D, N + 1)).double()


def test_one_reads_from_the_left_and_the_other_from_the_right(layer):
    x, lengths = torch.randn(B, T, D, dtype=torch.float64), [T, 2, 4]
    y, _ = layer(x, None, torch.tensor(lengths))
    ends = layer.ends(y, torch.tensor(lengths))
    assert y.shape == (B, T, layer.d_out) == (B, T, 2 * N + 1)
    for row, n in enumerate(lengths):
        left, _ = layer.left(x[row : row + 1, :n])
        right, _ = layer.right(x[row : row + 1, :n].flip(1))
        torch.testing.assert_close(y[row, :n, :N], left[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(y[row, :n, N:], right[0].flip(0), rtol=0, atol=1e-12)
        torch.testing.assert_close(ends[row], torch.cat((left[0, -1], right[0, -1])), rtol=0, atol=1e-12)


def test_the_definition_of_its_cells_gives_the_same():
    torch.manual_seed(0)
    layer = Bidirectional(Elman(D, N), Elman(D, N)).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    left, _ = layer.left.by_definition(x, layer.left.first(B))
    right, _ = layer.right.by_definition(x.flip(1), layer.right.first(B))
    torch.testing.assert_close(layer(x)[0], torch.cat((left, right.flip(1)), -1), rtol=0, atol=1e-12)


def test_an_empty_row_ends_in_zeros_and_has_a_mean_of_zeros(layer):
    y = torch.randn(2, T, layer.d_out, dtype=torch.float64)
    lengths = torch.tensor([0, 2])
    assert (layer.ends(y, lengths)[0] == 0).all() and layer.ends(y, lengths)[1].any()
    torch.testing.assert_close(mean_of_real(y, lengths), torch.stack((torch.zeros_like(y[0, 0]), y[1, :2].mean(0))))


def test_turning_round_keeps_the_pads_where_they_are_and_twice_is_nothing():
    x = torch.arange(10).view(2, 5, 1)
    lengths = torch.tensor([3, 5])
    assert turned(x, lengths)[..., 0].tolist() == [[2, 1, 0, 3, 4], [9, 8, 7, 6, 5]]
    assert torch.equal(turned(turned(x, lengths), lengths), x) and torch.equal(turned(x), x.flip(1))
