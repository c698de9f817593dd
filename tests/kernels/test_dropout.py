"""Dropout by 16 bits a number: the chances of torch's, the mean kept, and nothing that repeats."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.kernels import attention as kernel
from regard.kernels import dropout
from regard.kernels.attention import shared
from regard.kernels.dropout import LEAST, WAYS, Dropout, drop
from regard.laws.prepared import turn_off_dropout
from regard.layers import attend as attention
from regard.layers.attend import CAUSAL, attend, attend_by_definition, weights
from regard.layers.scores import make_score

MANY = 400_000
SHARES = [0.001, 0.1, 0.25, 0.5, 0.9]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# ------------------------------------------------------------------------------------------------ what chance must give


def dropped(share, n=MANY):
    return (drop(torch.ones(n, dtype=torch.float64), share) == 0).double()


def sigmas(found, share, n):
    """How far a share of n draws is from what it should be, in standard deviations."""
    return abs(found - share) / (share * (1 - share) / n) ** 0.5


def check_shares(share):
    """As many are left out as should be, in each of the four pieces of a draw."""
    gone = dropped(share)
    for piece in range(4):
        of_piece = gone[piece::4]
        assert sigmas(of_piece.mean().item(), share, len(of_piece)) < 4.5, f"piece {piece}"


def check_mean(share):
    """Kept numbers make up for those that are gone."""
    y = drop(torch.ones(MANY, dtype=torch.float64), share)
    assert abs(y.mean().item() - 1.0) < 4.5 * (share / (1 - share) / MANY) ** 0.5


def check_neighbours(share, lag):
    """What is near is left out or kept independently: beside it, in the same draw, and one draw on."""
    gone = dropped(share) - share
    together = (gone[:-lag] * gone[lag:]).mean().item() / (share * (1 - share))
    assert abs(together) < 4.5 / MANY**0.5


@pytest.mark.parametrize("share", SHARES)
def test_as_many_are_left_out_as_should_be_in_every_piece_of_a_draw(share):
    check_shares(share)


@pytest.mark.parametrize("share", SHARES)
def test_the_mean_is_kept(share):
    check_mean(share)


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 5, 8, 1248])       # 1,248 pieces: one round of the generator's numbers
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_neighbours_are_independent(share, lag):
    check_neighbours(share, lag)


def test_two_calls_draw_independently():
    together = ((dropped(0.3) - 0.3) * (dropped(0.3) - 0.3)).mean().item() / 0.21
    assert abs(together) < 4.5 / MANY**0.5


@pytest.mark.parametrize("share", [*SHARES, 1 / 3, 0.123456])
def test_kept_numbers_are_scaled_by_one_over_their_very_chance(share):
    kept = 1 - round(share * WAYS) / WAYS
    y = drop(torch.full((MANY,), 3.0, dtype=torch.float64), share)
    assert set(y.tolist()) == {0.0, 3.0 * (1 / kept)} and abs(kept - (1 - share)) <= 0.5 / WAYS


@pytest.mark.parametrize(("dropped", "bits"), [(1, -WAYS // 2), (WAYS - 1, WAYS // 2 - 2), (WAYS // 2, -1)])
def test_every_way_that_bits_can_fall_counts(dropped, bits, monkeypatch):
    """Of the numbers of 16 bits, each once, exactly `dropped` are left out: the last of them is `bits`."""
    every = torch.arange(-WAYS // 2, WAYS // 2, dtype=torch.int16)
    monkeypatch.setattr(torch.Tensor, "random_", lambda self, *_: self.copy_(every.view(torch.int64)))
    gone = drop(torch.ones(WAYS), dropped / WAYS) == 0
    assert gone.sum() == dropped and every[gone].max() == bits


# ------------------------------------------------------------------------------------------------ planted bugs


def planted(scale=None, draw=None, repeat=1):
    """`scales` with one thing wrong."""

    def scales(x, gone):
        n = x.numel()
        bits = torch.empty(-(-n // 4 // repeat), dtype=torch.int64)
        bits = (draw or (lambda empty: empty.random_(-2**63, None)))(bits).view(torch.int16).repeat(repeat)[:n]
        kept = (bits >= gone - WAYS // 2).view(x.shape).to(x.dtype)
        return kept * (scale or (lambda chance: 1 / chance))(1 - gone / WAYS)

    return scales


@pytest.mark.parametrize(("bug", "check"), [
    (planted(), None),
    (planted(scale=lambda chance: 1.0), check_mean),                                   # never scaled
    (planted(scale=lambda chance: 1 / chance + 0.005), check_mean),                      # scaled a little too much
    (planted(scale=lambda chance: 1 / (1 - chance)), check_mean),                        # by the other chance
    (planted(draw=lambda bits: bits.random_()), check_shares),                       # 63 bits: the sign is always plus
    (planted(draw=lambda bits: bits.random_(0, 2**32)), check_shares),               # 32 bits: two pieces are zero
    (planted(draw=lambda bits: bits.random_(-2**15, 2**15)), check_shares),          # 16 bits, and their sign
    (planted(repeat=MANY // 8), lambda share: check_neighbours(share, 8)),           # the same draws again and again
], ids=["none", "unscaled", "scaled too much", "other chance", "63 bits", "32 bits", "16 bits", "repeated"])
def test_a_planted_bug_is_caught(bug, check, monkeypatch):
    monkeypatch.setattr(dropout, "scales", bug)
    if check is None:                                                                # the plan itself is sound
        check_mean(0.1), check_shares(0.1), check_neighbours(0.1, 8)
        return
    with pytest.raises(AssertionError):
        check(0.1)


# -------------------------------------------------------------------------------------------- what layers rely on


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n", [1, 7, LEAST - 1, LEAST, LEAST + 1, LEAST + 2, LEAST + 3])
def test_the_gradient_goes_where_the_numbers_went(n, dtype):
    x = torch.randn(n, dtype=dtype).add_(10).requires_grad_()
    y = drop(x, 0.25)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert y.dtype == gradient.dtype == dtype and y.shape == x.shape
    assert torch.equal((gradient == 0), (y == 0))
    assert torch.equal(gradient[y != 0], torch.full_like(gradient[y != 0], 4 / 3))
    torch.testing.assert_close(y, x * gradient)


def test_the_same_seed_draws_the_same_and_goes_on_the_same():
    x, found = torch.randn(3, LEAST), []
    for _ in range(2):
        torch.manual_seed(5)
        found.append([drop(x, 0.1), drop(x, 0.1), torch.rand(3)])
    assert all(map(torch.equal, *found)) and not torch.equal(*found[0][:2])


def test_x_as_it_lies_makes_no_difference():
    x = torch.randn(80, 90, 3).transpose(0, 2)
    assert not x.is_contiguous()
    torch.manual_seed(1)
    found = drop(x, 0.4)
    torch.manual_seed(1)
    assert torch.equal(found, drop(x.contiguous(), 0.4))
    assert drop(torch.ones(1).expand(60, 100), 0.5).unique().tolist() == [0.0, 2.0]


@pytest.mark.parametrize("n", [0, 1, LEAST, 2 * LEAST])
def test_the_ends(n):
    x = torch.randn(n)
    assert drop(x, 0.0) is x and drop(x, 0.5, training=False) is x
    assert torch.equal(drop(x, 1.0), torch.zeros(n))
    layer = Dropout(0.5)
    assert layer.eval()(x) is x and (n < LEAST or (layer.train()(x) == 0).any())


@pytest.mark.parametrize("share", [1e-6, 7e-6, 1 - 1e-6])
def test_a_share_too_fine_for_16_bits_is_drawn_by_torch(share):
    x = torch.randn(2 * LEAST)
    torch.manual_seed(3)
    found = drop(x, share)
    torch.manual_seed(3)
    assert torch.equal(found, F.dropout(x, share))


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Dropout(share)
    with pytest.raises(ValueError):
        drop(torch.ones(2 * LEAST), share)


def test_compiling_sees_torchs_own(monkeypatch):
    monkeypatch.setattr(dropout, "scales", None)
    x, q = torch.ones(2 * LEAST), torch.randn(1, 2, 80, 8)
    layer = torch.compile(Dropout(0.5), backend="eager", fullgraph=True)
    assert 0.4 < (layer(x) == 0).float().mean() < 0.6
    reading = torch.compile(lambda q: attend(q, q, q, mask=CAUSAL, dropout=0.5), backend="eager", fullgraph=True)
    assert not torch.allclose(reading(q), attend(q, q, q, mask=CAUSAL))


def test_the_laws_can_turn_it_off():
    stack = nn.Sequential(nn.Linear(8, 8), Dropout(0.5))
    assert "0.5" in repr(stack)
    turn_off_dropout(stack)
    x = torch.ones(LEAST, 8)
    assert torch.equal(stack(x), stack[0](x))


# ------------------------------------------------------------------------------------------------ inside attention

B, H, T, K = 3, 4, 24, 8


def drawn(heads=H):
    return [torch.randn(B, n, T, K, dtype=torch.float64, requires_grad=True) for n in (H, heads, heads)]


def masks():
    some = torch.rand(B, 1, T, T, generator=torch.Generator().manual_seed(1)) < 0.6
    nothing = some.clone()
    nothing[0, 0, 2] = False
    pads = (torch.arange(T) < torch.tensor([T, 5, 0])[:, None])[:, None, None]
    return {"causal": CAUSAL, "none": None, "a row that may read nothing": nothing, "a source of nothing": pads}


@pytest.mark.parametrize("score", [None, "bilinear", "low-rank", "additive"])
@pytest.mark.parametrize("heads", [H, H // 2])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("mask", masks().values(), ids=masks())
def test_attention_with_dropout_is_the_definition_but_for_dropout(mask, biased, heads, score, monkeypatch):
    for module in (attention, kernel):
        monkeypatch.setattr(module, "drop", lambda x, share: x)
    q, k, v = drawn(heads)
    rules = dict(mask=mask, bias=torch.randn(H, T, T, dtype=torch.float64, requires_grad=True) if biased else None,
                 score=None if score is None else make_score(score, H, K).double())
    found, defined = attend(q, k, v, dropout=0.3, **rules), attend_by_definition(q, k, v, **rules)
    torch.testing.assert_close(found, defined, rtol=0, atol=1e-12)
    pull, inputs = torch.randn_like(found), [q, k, v, *([rules["bias"]] if biased else [])]
    for ours, theirs in zip(*(torch.autograd.grad(y, inputs, pull) for y in (found, defined)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("softcap", [0.0, 5.0])
def test_attention_leaves_out_weights(softcap):
    q, k, v = drawn(H // 2)
    torch.manual_seed(2)
    found = attend(q, k, v, mask=CAUSAL, softcap=softcap, dropout=0.3)
    torch.manual_seed(2)
    defined = drop(weights(q, k, CAUSAL, softcap=softcap), 0.3) @ shared(v, q)
    torch.testing.assert_close(found, defined, rtol=0, atol=1e-12)
    assert not torch.allclose(found, attend(q, k, v, mask=CAUSAL, softcap=softcap))


@pytest.mark.parametrize("autocast", [False, True])
def test_attention_with_dropout_in_bfloat16(autocast):
    dtype = torch.float32 if autocast else torch.bfloat16
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in drawn())
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y = attend(q, k, v, mask=masks()["a source of nothing"], bias=torch.randn(H, T, T), dropout=0.3)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert all(torch.isfinite(each).all() for each in (y, q.grad, k.grad, v.grad))
