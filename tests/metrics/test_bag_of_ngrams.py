"""The bag of n-grams: its features, its fit against a plain one, and how it is kept."""

import numpy as np
import pytest
import torch

from regard.data.tokens.vocabulary import BOS
from regard.metrics import bag_of_ngrams
from regard.metrics.bag_of_ngrams import BagOfNGrams, fit_bag, hash_ngrams, read_features


def some_texts(number=300, seed=0):
    """Label 1 has the words 7 8 in this order, label 0 in the other: only two words together tell."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=number).tolist()
    middle = {0: [8, 7], 1: [7, 8]}
    texts = [[*random.integers(10, 30, 3).tolist(), *middle[label], *random.integers(10, 30, 2).tolist()]
             for label in labels]
    return texts, labels


def test_every_ngram_of_each_text_is_hashed_once_and_none_spans_two_texts():
    row, found = hash_ngrams([[5, 6], [6], []], order=2)
    assert np.bincount(row).tolist() == [5, 3, 1]          # <bos> 5 6, <bos>5 56 · <bos> 6, <bos>6 · <bos>
    again = {name: hash_ngrams([text], 2)[1].tolist() for name, text in (("56", [5, 6]), ("6", [6]), ("65", [6, 5]))}
    assert found[row == 0].tolist() == again["56"] and found[row == 1].tolist() == again["6"]
    assert set(again["56"]) != set(again["65"])
    assert np.unique(hash_ngrams([list(range(4, 400))], 1)[1]).size > 395 and BOS not in range(4, 400)


def test_features_are_counts_of_known_ngrams_over_the_root_of_all():
    hashes = np.unique(hash_ngrams([[5, 5, 6]], 1)[1])
    x = read_features([[5, 5, 6], [9]], 1, hashes)
    dense = torch.zeros(2, x.width).index_put_((x.rows, x.columns), x.values, accumulate=True)
    assert sorted(dense[0].tolist()) == pytest.approx([0.5, 0.5, 1.0])        # <bos> and 6 once, 5 twice, of four
    assert dense[1].max() == pytest.approx(0.5 ** 0.5)                        # of <bos> 9, <bos> is known
    weights = torch.randn(x.width, 3)
    torch.testing.assert_close(x.times(weights), dense @ weights)
    torch.testing.assert_close(x.turned_times(torch.ones(2, 3)), dense.T @ torch.ones(2, 3))


def test_it_learns_what_two_words_together_tell_and_nothing_that_one_tells():
    texts, labels = some_texts()
    held, wanted = some_texts(200, seed=1)
    right = np.mean(fit_bag(texts, labels, count=2).predict(held).argmax(-1) == wanted)
    assert right > 0.95
    alone = bag_of_ngrams.ORDERS | {"single": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bag_of_ngrams, "ORDERS", alone)
        assert np.mean(fit_bag(texts, labels, count=2, kind="single").predict(held).argmax(-1) == wanted) < 0.7


def test_the_fit_is_where_plain_descent_ends(monkeypatch):
    monkeypatch.setattr(bag_of_ngrams, "STRENGTH", 1e-2)
    texts, labels = some_texts(60)
    bag = fit_bag(texts, labels, count=2)
    x = read_features(texts, 2, bag.hashes)
    weights = torch.from_numpy(bag.weights).clone().requires_grad_()
    bias = torch.from_numpy(bag.bias).clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(x.times(weights) + bias, torch.tensor(labels))
    (loss + 0.5e-2 * weights.square().sum()).backward()
    assert weights.grad.abs().max() < 1e-4 and bias.grad.abs().max() < 1e-4


def test_probabilities_sum_to_one_and_arrays_give_the_same_again():
    texts, labels = some_texts(50)
    bag = fit_bag(texts, labels, count=2)
    found = bag.predict([*texts, []])
    np.testing.assert_allclose(np.exp(found).sum(-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(BagOfNGrams.from_arrays(bag.arrays(), len(bag.bias)).predict([*texts, []]), found)
    assert bag.predict([]).shape == (0, 2)


def test_of_many_texts_evenly_spaced_ones_are_learned_from(monkeypatch):
    texts, labels = some_texts(200)
    monkeypatch.setattr(bag_of_ngrams, "MOST", 900)
    every = 1 + 2 * sum(map(len, texts)) // 900
    few = fit_bag(texts, labels, count=2)
    monkeypatch.undo()
    np.testing.assert_array_equal(few.hashes, fit_bag(texts[::every], labels[::every], count=2).hashes)
    assert len(few.hashes) < len(fit_bag(texts, labels, count=2).hashes)
