"""Attention in its variants: each is what its equation says, on top of obeying every law."""

import math

import pytest
import torch

from regard.errors import SettingError
from regard.kernels.attention import causal_mask
from regard.layers.attend import CAUSAL, attend, attend_by_definition
from regard.layers.cache import WindowCache, newest
from regard.layers.positions import alibi_slopes
from regard.layers.self_attention import SelfAttention
from regard.watching import watch

B, H, T, D = 2, 4, 9, 16
EXACT = {"rtol": 0, "atol": 1e-12}


def drawn(heads=H, width=4):
    return [torch.randn(B, n, T, width, dtype=torch.float64, requires_grad=True) for n in (H, heads, heads)]


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("mask", [CAUSAL, None, causal_mask(T, T, torch.device("cpu"))], ids=["causal", "all", "mask"])
def test_every_kernel_equals_the_definition_and_so_does_its_gradient(kv_heads, softcap, biased, mask):
    q, k, v = drawn(kv_heads)
    bias = torch.randn(H, T, T, dtype=torch.float64) if biased else None
    kernel = attend(q, k, v, mask=mask, bias=bias, softcap=softcap)
    definition = attend_by_definition(q, k, v, mask=mask, bias=bias, softcap=softcap)
    torch.testing.assert_close(kernel, definition, **EXACT)
    pull = torch.randn_like(kernel)
    for ours, theirs in zip(*(torch.autograd.grad(y, (q, k, v), pull) for y in (kernel, definition)), strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def weights_of(layer, x):
    with watch() as seen:
        layer(x)
    return seen.of("weights")[0].values


def test_a_window_reads_the_last_few_positions_and_itself():
    layer = SelfAttention(D, heads=H, window=3).double()
    read = weights_of(layer, torch.randn(B, T, D, dtype=torch.float64))
    distance = torch.arange(T)[:, None] - torch.arange(T)
    near = (distance >= 0) & (distance < 3)
    assert (read[..., ~near] == 0).all() and (read[..., near] > 0).all()
    torch.testing.assert_close(read.sum(-1), torch.ones(B, H, T, dtype=torch.float64))


def test_a_window_keeps_its_room_however_long_the_text():
    layer = SelfAttention(D, heads=H, window=3)
    small, large = (layer.start(1, capacity) for capacity in (8, 8192))
    assert isinstance(large, WindowCache) and small.nbytes() == large.nbytes()


def test_each_slot_of_a_window_holds_its_newest_position():
    assert newest(torch.tensor([0, 2, 3, 7]), 3).tolist() == [[-3, -2, -1], [0, 1, -1], [0, 1, 2], [6, 4, 5]]


def test_a_watcher_of_a_carried_window_is_told_which_positions_it_sees():
    layer = SelfAttention(D, heads=H, window=3).double()
    x = torch.randn(1, T, D, dtype=torch.float64)
    whole = weights_of(layer, x)
    _, state = layer(x[:, :6], layer.start(1, 64))
    with watch() as seen:
        layer(x[:, 6:7], state)
    reading = seen.of("weights")[0]
    assert reading.about["queries"].tolist() == [[6]]
    for slot, position in enumerate(reading.about["keys"][0].tolist()):
        expected = whole[0, :, 6, position] if position > 3 else torch.zeros(H, dtype=torch.float64)
        torch.testing.assert_close(reading.values[0, :, 0, slot], expected, **EXACT)


def test_alibi_takes_its_slope_off_the_score_for_every_position_between():
    layer = SelfAttention(D, heads=H, positions="alibi").double()
    torch.nn.init.zeros_(layer.qkv.weight)                          # all scores equal: distance alone decides
    read = weights_of(layer, torch.randn(1, T, D, dtype=torch.float64))
    for head, slope in enumerate(alibi_slopes(H).tolist()):
        fall = torch.exp(torch.tensor(-slope, dtype=torch.float64))
        torch.testing.assert_close(read[0, head, -1, :-1] / read[0, head, -1, 1:], fall.expand(T - 1), **EXACT)
    assert alibi_slopes(8)[0] == 1 / 2 and alibi_slopes(8)[-1] == 1 / 256


def test_grouped_queries_share_keys_and_values_with_their_neighbours():
    layer = SelfAttention(D, heads=H, kv_heads=2, positions="none").double()
    full = SelfAttention(D, heads=H, positions="none").double()
    width = D // H
    q, k, v = layer.qkv.weight.detach().split([H * width, 2 * width, 2 * width])
    k, v = (part.view(2, width, D).repeat_interleave(2, 0).flatten(0, 1) for part in (k, v))
    full.load_state_dict({"qkv.weight": torch.cat((q, k, v)), "out.weight": layer.out.weight})
    x = torch.randn(B, T, D, dtype=torch.float64)
    torch.testing.assert_close(layer(x)[0], full(x)[0], **EXACT)
    assert 2 * layer.start(1, 99).keys.numel() == full.start(1, 99).keys.numel()


def test_the_nonlinearity_of_the_lecture_stands_around_queries_keys_and_values():
    layer = SelfAttention(D, heads=1, f="relu", positions="none").double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    q, k, v = (torch.relu(x @ w.T)[:, None] for w in layer.qkv.weight.chunk(3))
    torch.testing.assert_close(layer(x)[0], attend(q, k, v, mask=CAUSAL)[:, 0] @ layer.out.weight.T, **EXACT)


def test_normed_queries_and_keys_do_not_feel_the_size_of_their_weights():
    layer = SelfAttention(D, heads=H, qk_norm=True).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    before = weights_of(layer, x)
    with torch.no_grad():
        layer.qkv.weight[:2 * D] *= 50
    torch.testing.assert_close(weights_of(layer, x), before, rtol=0, atol=1e-4)      # the norm's epsilon


def test_a_soft_cap_bounds_how_much_more_one_key_is_read_than_another():
    layer = SelfAttention(D, heads=H, softcap=1.0).double()
    with torch.no_grad():
        layer.qkv.weight.mul_(100)
    read = weights_of(layer, torch.randn(B, T, D, dtype=torch.float64))[..., -1, :]
    assert (read.amax(-1) / read.amin(-1) <= math.exp(2) + 1e-9).all()


@pytest.mark.parametrize("kv_heads, cure", [(3, 2), (8, 4)])
def test_heads_that_cannot_be_shared_are_refused_with_a_number_that_can(kv_heads, cure):
    with pytest.raises(SettingError, match=f"model.kv_heads = {kv_heads} does not divide model.heads = 4: "
                                           f"try model.kv_heads = {cure}"):
        SelfAttention(D, heads=4, kv_heads=kv_heads)
