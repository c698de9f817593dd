import pytest
import torch

from regard.errors import SettingError
from regard.kernels.rotary import by_definition
from regard.layers.full_attention import FullAttention
from regard.watching import watch

B, T, D, H = 3, 5, 8, 2


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return FullAttention(D, heads=H).double()


def by_hand(layer, x):
    """One row, one head and one query at a time, rotations and all."""
    width = D // H
    turns = layer.rotary.turns(torch.arange(len(x)), x.dtype)[:, None]                      # (T, 1, K/2)
    q, k, v = (part.view(-1, H, width) for part in (x @ layer.qkv.weight.T).chunk(3, -1))
    q, k = (by_definition(each, turns) for each in (q, k))
    rows = []
    for t in range(len(x)):
        heads = []
        for h in range(H):
            weights = torch.stack([q[t, h] @ k[s, h] / width**0.5 for s in range(len(x))]).softmax(0)
            heads.append(sum(weights[s] * v[s, h] for s in range(len(x))))
        rows.append(torch.cat(heads) @ layer.out.weight.T)
    return torch.stack(rows)


def test_every_position_reads_all_real_ones_and_no_other(layer):
    x, lengths = torch.randn(B, T, D, dtype=torch.float64), [T, 2, 3]
    y, state = layer(x, None, torch.tensor(lengths))
    assert state is None
    for row, n in enumerate(lengths):
        torch.testing.assert_close(y[row, :n], by_hand(layer, x[row, :n]), rtol=0, atol=1e-12)


def test_with_alibi_scores_fall_with_distance_to_either_side():
    """Press et al. 2022, without the causal mask: q k / sqrt K - slope |t - s|; of two heads, 1/16 and 1/256."""
    torch.manual_seed(0)
    layer, width = FullAttention(D, heads=H, positions="alibi").double(), D // H
    x = torch.randn(1, T, D, dtype=torch.float64)
    q, k, _ = (part.view(T, H, width) for part in (x[0] @ layer.qkv.weight.detach().T).chunk(3, -1))
    with watch() as seen:
        layer(x)
    (reading,) = seen.of("weights")
    for h, slope in enumerate((1 / 16, 1 / 256)):
        for t in range(T):
            scores = torch.stack([q[t, h] @ k[s, h] / width**0.5 - slope * abs(t - s) for s in range(T)])
            torch.testing.assert_close(reading.values[0, h, t], scores.softmax(-1), rtol=0, atol=1e-7)


def test_a_later_token_is_heard_at_the_first_position(layer):
    x = torch.randn(1, T, D, dtype=torch.float64)
    changed = x.clone()
    changed[:, -1] += 1
    assert (layer(x)[0][:, 0] - layer(changed)[0][:, 0]).abs().max() > 1e-3


def test_a_watcher_sees_the_weights_of_every_head(layer):
    x, lengths = torch.randn(B, T, D, dtype=torch.float64), torch.tensor([T, 2, 0])
    with watch() as seen:
        layer(x, None, lengths)
    (reading,) = seen.of("weights")
    assert reading.layer is layer and reading.values.shape == (B, H, T, T)
    torch.testing.assert_close(reading.values.sum(-1)[:2], torch.ones(2, H, T, dtype=torch.float64))
    assert (reading.values[1, ..., 2:] == 0).all() and (reading.values[2] == 0).all()
    assert (reading.values[0] > 0).all()                                           # later positions are read, too


def test_it_refuses_to_be_cut_and_heads_that_do_not_fit(layer):
    assert layer.start(B) is None
    with pytest.raises(AssertionError, match="cannot be read in pieces"):
        layer.start(B, capacity=T)
    with pytest.raises(SettingError, match=r"model.heads = 3 does not divide model.width = 8"):
        FullAttention(8, heads=3)
