"""Scores: each is its equation, and attention with any of them is the softmax of it."""

import pytest
import torch

from regard.errors import SettingError
from regard.layers import scores as module
from regard.layers.attend import CAUSAL, attend, attend_by_definition
from regard.layers.scores import ALL_SCORES as SCORES
from regard.layers.scores import Additive, Bilinear, Location, LowRank, make_score

B, H, T, L, K = 2, 3, 4, 5, 6
EXACT = {"rtol": 0, "atol": 1e-12}


def drawn(keys=L):
    return [torch.randn(B, H, length, K, dtype=torch.float64, requires_grad=True) for length in (T, keys, keys)]


def made(name):
    torch.manual_seed(0)
    score = make_score(name, H, K, rank=2, places=9).double()
    for weight in score.parameters():
        torch.nn.init.normal_(weight)
    return score


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("masked", [False, True])
def test_the_kernel_equals_the_definition_and_so_does_its_gradient(name, masked):
    q, k, v = drawn()
    score = made(name)
    mask = (torch.arange(L) < torch.tensor([3, 5])[:, None])[:, None, None] if masked else None
    ours, theirs = attend(q, k, v, mask=mask, score=score), attend_by_definition(q, k, v, mask=mask, score=score)
    torch.testing.assert_close(ours, theirs, **EXACT)
    pull = torch.randn_like(ours)
    wanted = (q, v, *score.parameters())
    for one, other in zip(*(torch.autograd.grad(y, wanted, pull) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("name", SCORES)
def test_a_score_is_its_equation(name):
    q, k, _ = drawn()
    score = made(name)
    b, h, t, i = 1, 2, 3, 1
    one, other = q[b, h, t], k[b, h, i]
    expected = {
        "dot": lambda: one @ other,
        "scaled-dot": lambda: one @ other / K**0.5,
        "bilinear": lambda: one @ score.weight[h] @ other,
        "low-rank": lambda: (one @ score.u[h]) @ (other @ score.v[h]),
        "scaled-low-rank": lambda: (one @ score.u[h]) @ (other @ score.v[h]) / 2**0.5,
        "additive": lambda: torch.tanh(one @ score.w[h] + other @ score.u[h]) @ score.v[h, :, 0],
        "location": lambda: one @ score.weight[h, :, i] + score.bias[h, 0, i],
    }[name]()
    torch.testing.assert_close(score(q, k)[b, h, t, i], expected, **EXACT)


def test_masked_self_attention_takes_any_score():
    q, k, v = drawn(T)
    for name in SCORES:
        score = made(name)
        torch.testing.assert_close(attend(q, k, v, mask=CAUSAL, score=score),
                                   attend_by_definition(q, k, v, mask=CAUSAL, score=score), **EXACT)


def test_the_network_works_in_pieces_when_there_is_much(monkeypatch):
    q, k, _ = drawn()
    score = Additive(H, K).double()
    whole = score(q, k)
    monkeypatch.setattr(module, "LARGEST", 1)
    torch.testing.assert_close(score(q, k), whole, **EXACT)


def test_low_rank_has_fewer_weights():
    sizes = [sum(p.numel() for p in score.parameters()) for score in (Bilinear(4, 64), LowRank(4, 64, 8))]
    assert sizes[1] < sizes[0] / 3


def test_a_source_beyond_the_places_is_refused_by_name():
    q, k, _ = drawn()
    with pytest.raises(SettingError, match="a source of 5 tokens is longer than the 3 places"):
        Location(H, K, places=3).double()(q, k)


def test_an_unknown_score_is_refused():
    with pytest.raises(SettingError, match="did you mean additive"):
        make_score("aditive", 1, 4)
