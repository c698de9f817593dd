"""Attention by a window in blocks: the same as with a mask of all positions, and never as many numbers."""

from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.kernels import attention
from regard.kernels.in_blocks import attend_in_blocks
from regard.layers.attend import attend, by_kernel
from regard.layers.positions import alibi_slopes
from regard.layers.self_attention import SelfAttention
from regard.watching import watch

B, H, K = 2, 4, 3


def drawn(time, heads=H):
    return torch.randn(B, heads, time, K, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("time, window", [(1, 1), (7, 1), (7, 2), (8, 4), (9, 4), (5, 8), (13, 3)])
@pytest.mark.parametrize("heads, alibi, softcap", [(H, False, 0.0), (H, True, 0.0), (2, True, 5.0), (1, False, 3.0)])
def test_blocks_give_what_a_mask_of_all_positions_gives(time, window, heads, alibi, softcap):
    torch.manual_seed(time)
    q, k, v = drawn(time), drawn(time, heads), drawn(time, heads)
    slopes = alibi_slopes(H).double() if alibi else None
    distance = torch.arange(time)[:, None] - torch.arange(time)
    mask = (distance >= 0) & (distance < window)
    bias = None if slopes is None else -slopes[:, None, None] * distance
    whole = attend(q, k, v, mask=mask, bias=bias, softcap=softcap)
    blocks = attend_in_blocks(partial(by_kernel, softcap=softcap), q, k, v, window, slopes)
    torch.testing.assert_close(blocks, whole, rtol=0, atol=1e-12)
    pull = torch.randn_like(whole)
    for ours, theirs in zip(*(torch.autograd.grad(y, (q, k, v), pull) for y in (blocks, whole)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


class Largest(TorchDispatchMode):
    """The most numbers of a tensor that was made."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.most = max([self.most, *(each.numel() for each in tree_leaves(made) if isinstance(each, torch.Tensor))])
        return made


def largest(layer, time, capacity):
    x = torch.randn(1, time, layer.d_in)
    with torch.no_grad(), Largest() as seen:
        layer(x, layer.start(1, capacity))
    return seen.most


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
@pytest.mark.parametrize("window, capacity", [(16, None), (16, 4096), (0, 4096)])         # whole reads, and prompts
def test_never_as_many_numbers_are_held_as_there_are_pairs_of_positions(positions, window, capacity):
    layer = SelfAttention(8, heads=2, window=window, positions=positions)
    few, many = (largest(layer, time, capacity) for time in (1024, 2048))
    assert many <= 2 * few, f"twice the text takes {many / few:.1f} times the numbers"


def test_it_would_be_seen_if_they_were():
    layer = SelfAttention(8, heads=2, positions="alibi")             # whose bias is of every two positions
    assert largest(layer, 2048, None) == 4 * largest(layer, 1024, None)


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_a_long_prompt_is_read_piece_by_piece_to_the_same_end(monkeypatch, window, positions):
    monkeypatch.setattr(attention, "PIECE", 4)
    layer = SelfAttention(8, heads=2, window=window, positions=positions).double()
    x, lengths = torch.randn(B, 23, 8, dtype=torch.float64), torch.tensor([23, 9])
    with torch.no_grad():
        y, state = layer(x, layer.start(B, capacity=40), lengths)
        rows = [layer(x[row:row + 1, :lengths[row]])[0] for row in range(B)]
        after = [layer(torch.cat((x[row:row + 1, :lengths[row]], x[:1, :1]), 1))[0][:, -1] for row in range(B)]
        following, _ = layer(x[:1, :1].expand(B, -1, -1), state)
    for row in range(B):
        torch.testing.assert_close(y[row:row + 1, :lengths[row]], rows[row], rtol=0, atol=1e-12)
    torch.testing.assert_close(following[:, 0], torch.cat(after), rtol=0, atol=1e-12)


def test_a_watcher_sees_every_weight_and_changes_no_number():
    layer = SelfAttention(8, heads=2, window=3)
    x = torch.randn(1, 20, 8)
    unseen = layer(x)[0]
    with watch() as seen:
        assert torch.equal(layer(x)[0], unseen)
    weights = seen.of("weights")[0].values
    distance = torch.arange(20)[:, None] - torch.arange(20)
    assert weights.shape == (1, 2, 20, 20) and not weights[..., (distance < 0) | (distance >= 3)].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 20))
