"""Pruning: fewer n-grams, a distribution still, and the numbers of the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import SettingError
from regard.models.ngram import NGram, read_arpa, write_arpa
from regard.models.ngram.counting import BOS, EOS
from tests.models.ngram_definition import Definition

VOCAB = 30
WORDS = ["<pad>", "<bos>", "<eos>", "<unk>", *(f"w{id}" for id in range(4, VOCAB))]


def texts(count: int = 300, seed: int = 0) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [[*(4 + draw.zipf(1.5, size=draw.integers(0, 12)) % (VOCAB - 4)).tolist(), EOS] for _ in range(count)]


def fit(some: list[list[int]], vocab: int = VOCAB, **options) -> NGram:
    tokens, ends = np.concatenate(some).astype(np.uint16), np.cumsum([len(text) for text in some])
    return NGram.fit(tokens, ends, vocab=vocab, dtype=torch.float64, **options)


def all_after(model: NGram, context: list[int]) -> torch.Tensor:
    return model.step(torch.tensor([context]), model.start(1))[0][0].exp()


def mean(model: NGram) -> float:
    other = texts(seed=1)
    scores = [model.score(torch.tensor([[BOS, *text[:-1]]]), torch.tensor([text]))[0].sum() for text in other]
    return -float(sum(scores)) / sum(map(len, other))


def test_ngrams_seen_once_are_gone_and_the_rest_are_there():
    model, full = fit(texts(), order=4, prune=(0, 0, 1, 2)), fit(texts(), order=4)
    slow = Definition([[BOS, *text] for text in texts()], vocab=VOCAB, order=4, smoothing="none")
    seen = [sum(count > threshold for count in slow.counts[k].values()) for k, threshold in ((2, 0), (3, 1), (4, 2))]
    assert [len(order) for order in model.orders] == [VOCAB, *seen]
    assert [len(order) for order in full.orders][1:] == [len(slow.counts[k]) for k in (2, 3, 4)]
    assert model.nbytes() < full.nbytes()
    assert mean(full) == pytest.approx(mean(model), rel=0.05) and mean(full) != mean(model)


@pytest.mark.parametrize("prune", [(0, 1), (0, 0, 1), (0, 1, 2, 5), (0, 10**9)])
def test_a_pruned_model_equals_the_definition_and_sums_to_one(prune):
    some = texts(60)
    model = fit(some, order=4, prune=prune)
    whole = prune + prune[-1:] * (4 - len(prune))
    slow = Definition([[BOS, *text] for text in some], vocab=VOCAB, order=4, prune=whole)
    for context in ([BOS], [BOS, *some[3][:2]], some[5][:3], [4, 4, 4], [5], [4, 5, BOS], [29, 28, 27]):
        got = all_after(model, context)
        assert got.sum().item() == pytest.approx(1, abs=1e-12)
        expected = torch.tensor([slow.probability(word, context) for word in range(VOCAB)], dtype=torch.float64)
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(some=st.lists(st.lists(st.integers(2, 6), min_size=1, max_size=8), min_size=1, max_size=8),
       order=st.integers(2, 5), threshold=st.integers(0, 3), context=st.lists(st.integers(1, 6), min_size=1))
def test_any_text_however_small_can_be_pruned(some, order, threshold, context):
    model = fit(some, 7, order=order, prune=(0, threshold))
    assert all_after(model, context).sum().item() == pytest.approx(1, abs=1e-9)


def test_a_law_that_forgot_what_was_pruned_would_fail():
    """The planted bug: dropping n-grams without giving their mass to shorter contexts."""
    model, full = fit(texts(), order=3, prune=(0, 0, 1)), fit(texts(), order=3)
    model.orders[1].backoffs, model.orders[1].weights = full.orders[1].backoffs, None
    sums = [all_after(model, [BOS, *text[:1]]).sum().item() for text in texts()[:20] if len(text) > 1]
    assert max(abs(total - 1) for total in sums) > 0.01


@pytest.mark.parametrize("prune, more, message", [
    ((1,), {}, "prune 1: thresholds begin with 0, as every word is kept, and never fall: try 0,0,1"),
    ((0, 2, 1), {}, "prune 0,2,1: thresholds begin with 0"),
    ((0, 0, 0, 1), {"order": 3}, "prune 0,0,0,1: there are 4 thresholds for the orders 1 to 3"),
    ((0, 1), {"smoothing": "none"}, "prune 0,1: what is pruned is left to shorter contexts, which smoothing none"),
])
def test_impossible_thresholds_are_refused_in_one_line(prune, more, message):
    with pytest.raises(SettingError, match=message):
        fit(texts(10), prune=prune, **more)


def test_thresholds_of_zero_prune_nothing():
    pruned, full = fit(texts(20), prune=(0, 0, 0)).saved_tensors(), fit(texts(20)).saved_tensors()
    assert all(torch.equal(tensor, pruned[name]) for name, tensor in full.items())


def test_a_pruned_model_goes_through_arpa(tmp_path):
    model = fit(texts(), order=4, prune=(0, 0, 1))
    write_arpa(model, WORDS, tmp_path / "m.arpa")
    again, words = read_arpa(tmp_path / "m.arpa", torch.float64)
    ids = [words.index(word) if word in words else id for id, word in enumerate(WORDS)]
    for text in texts(10, seed=1):
        read, targets = torch.tensor([[BOS, *text[:-1]]]), torch.tensor([text])
        there = [torch.tensor([[ids[id] for id in row]]) for row in (read[0].tolist(), targets[0].tolist())]
        torch.testing.assert_close(model.score(read, targets)[0], again.score(*there)[0], rtol=0, atol=1e-5)


def test_kenlm_gives_every_sentence_the_score_of_a_pruned_model(tmp_path):
    kenlm = pytest.importorskip("kenlm")
    model = fit(texts(), order=4, prune=(0, 0, 1))
    write_arpa(model, WORDS, tmp_path / "m.arpa")
    theirs = kenlm.Model(str(tmp_path / "m.arpa"))
    for text in texts(20, seed=1):
        score = model.score(torch.tensor([[BOS, *text[:-1]]]), torch.tensor([text]))[0].sum().item() / np.log(10)
        assert theirs.score(" ".join(WORDS[id] for id in text[:-1])) == pytest.approx(score, abs=1e-3)
