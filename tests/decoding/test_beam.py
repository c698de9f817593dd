"""Beam search: wide enough it finds what trying everything finds, one beam is greedy, and batches do not matter."""

import itertools

import pytest
import torch

from regard.contract import Source
from regard.decoding.beam import Beam, beam_search
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens
from regard.errors import SettingError
from regard.families import FAMILIES
from regard.families.family import randomised
from regard.layers.attentive import AttentiveRecurrence
from regard.layers.cross_attention import CrossAttention
from regard.layers.gated import GRU
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack
from regard.models.encoders import RecurrentEncoder
from regard.models.seq2seq import Prefix, Seq2Seq

V, BOS, EOS = 7, 1, 2
BANNED = (0, 1, 3)
ITEMS = [[4, 5, 6, 2], [5, 2], [6, 6, 4, 5, 2], [4, 2], [5, 4, 2]]


def attentive():
    encoder = RecurrentEncoder(GRU, vocab=V, width=6, hidden=3)
    return Seq2Seq(encoder, AttentiveRecurrence(6, 6, d_memory=6, d_summary=6, feeding=True), vocab=V)


def crossing():
    encoder = RecurrentEncoder(GRU, vocab=V, width=6, hidden=3)
    return Seq2Seq(encoder, Stack([Block(SelfAttention(6, heads=1), None), Block(CrossAttention(6, 6, heads=2), None)]),
                   vocab=V)


def prefix():
    return Prefix(Stack([Block(SelfAttention(6, heads=1), None)]), vocab=V, context=40)


MODELS = {"attentive": attentive, "crossing": crossing, "prefix": prefix}


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(1)
    return randomised(MODELS[request.param]()).double().eval()


def batch(items):
    lengths = torch.tensor([len(each) for each in items])
    padded = torch.zeros(len(items), int(lengths.max()), dtype=torch.long)
    for row, each in enumerate(items):
        padded[row, :len(each)] = torch.tensor(each)
    return Source(padded, lengths)


def found(model, items, limit=4, **how):
    return beam_search(model, batch(items), limits=[limit] * len(items), how=Beam(**how), begin=BOS, end=EOS,
                       banned=BANNED)


@torch.no_grad()
def log_prob(model, items, target):
    tokens, targets = torch.tensor([[BOS, *target]]), torch.tensor([[*target, EOS]])
    return float(model.score(tokens, targets, model.start(1, None, batch([items])))[0].sum())


def everything(model, items, limit):
    """Every target with its end within the limit, best first by log p / tokens."""
    words = [word for word in range(V) if word not in (*BANNED, EOS)]
    targets = [target for n in range(limit) for target in itertools.product(words, repeat=n)]
    scored = [(log_prob(model, items, target) / (len(target) + 1), target) for target in targets]
    return sorted(scored, reverse=True)


def test_wide_enough_it_finds_what_trying_everything_finds(model):
    for items in ITEMS[:3]:
        tried = everything(model, items, 4)
        (best,) = found(model, [items], width=200, n_best=5)
        assert [each.tokens for each in best] == [target for _, target in tried[:5]]
        assert [each.score for each in best] == pytest.approx([score for score, _ in tried[:5]], abs=1e-10)


def test_one_beam_is_greedy(model):
    for items in ITEMS:
        text = []
        for (token,) in generate_tokens(model, [[BOS]], new_tokens=6, how=Sampling(temperature=0), end=EOS,
                                        banned=BANNED, source=batch([items])):
            if token is not None:
                text.append(token)
        ((best,),) = found(model, [items], limit=6, width=1)
        assert list(best.tokens) == text


def test_a_source_gives_the_same_in_any_batch_and_order(model):
    alone = [found(model, [items], width=3, n_best=3)[0] for items in ITEMS]
    order = [3, 0, 4, 2, 1]
    for together, chosen in ((found(model, ITEMS, width=3, n_best=3), range(5)),
                             (found(model, [ITEMS[i] for i in order], width=3, n_best=3), order)):
        for own, i in zip(together, chosen, strict=True):
            assert [each.tokens for each in own] == [each.tokens for each in alone[i]]
            assert [each.log_prob for each in own] == pytest.approx([each.log_prob for each in alone[i]], abs=1e-10)


def test_each_score_is_what_the_model_says_of_its_target(model):
    for items, own in zip(ITEMS, found(model, ITEMS, width=4, n_best=4, limit=6), strict=True):
        assert own == sorted(own, key=lambda each: -each.score) and len({each.tokens for each in own}) == len(own)
        for each in own:
            if each.finished:
                assert each.log_prob == pytest.approx(log_prob(model, items, each.tokens), abs=1e-10)
                assert each.score == pytest.approx(each.log_prob / (len(each.tokens) + 1))


def test_limits_are_each_sources_own(model):
    limits = [1, 5, 2, 4, 3]
    results = beam_search(model, batch(ITEMS), limits=limits, how=Beam(width=2), begin=BOS, end=EOS, banned=BANNED)
    for (best,), limit, items in zip(results, limits, ITEMS, strict=True):
        assert len(best.tokens) + best.finished <= limit
        ((alone,),) = beam_search(model, batch([items]), limits=[limit], how=Beam(width=2), begin=BOS, end=EOS,
                                  banned=BANNED)
        assert best.tokens == alone.tokens


def test_no_n_gram_is_said_twice(model):
    for n in (1, 2):
        for own in found(model, ITEMS, width=3, n_best=3, limit=8, no_repeat=n):
            for each in own:
                grams = [each.tokens[i:i + n] for i in range(len(each.tokens) - n + 1)]
                assert len(set(grams)) == len(grams)


def test_a_language_model_without_a_source_is_searched_too():
    model = FAMILIES["rnn"].example(torch.float64)
    ((best,),) = beam_search(model, None, limits=[5], how=Beam(width=3), begin=1, end=2, banned=(0, 1, 3))
    assert set(best.tokens).isdisjoint({0, 1, 2, 3})


@pytest.mark.parametrize("wrong, message", [
    (dict(width=0), "--beam 0"), (dict(n_best=6), "--n-best 6"), (dict(length=-1), "--length-penalty -1"),
    (dict(length=float("nan")), "--length-penalty nan"), (dict(no_repeat=-1), "--no-repeat -1")])
def test_what_cannot_be_searched_is_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        Beam(**wrong)
