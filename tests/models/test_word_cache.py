"""The cache, against its definition in plain Python: in rows, cut anywhere, and in a whole text by sorting."""

import numpy as np
import pytest
import torch

from regard.models import word_cache as cache
from regard.models.mixture import fit_numbers
from regard.models.ngram.model import Contexts
from regard.models.word_cache import CacheCounts, add_to_targets, count_targets, count_text, read_on, start_cache

TEXT = [1, *np.random.default_rng(0).integers(2, 5, 60).tolist()]           # <bos>, and words that come again soon


def count_by_definition(text, remembered):
    """[(C_k, H_k) of k = 0 .. 4] of each word of a text but the first."""
    rows = []
    for place in range(1, len(text)):
        last = text[max(0, place - remembered):place]
        followed = [[last[j] for j in range(k, len(last)) if last[j] > 1 and last[j - k:j] == last[len(last) - k:]]
                    if len(last) >= k else [] for k in range(cache.ORDERS)]
        rows.append([(len(each), each.count(text[place])) for each in followed])
    return np.array(rows)


def both(counts):
    return np.stack([each.numpy() for each in counts], -1)


@pytest.mark.parametrize("remembered", [3, 7, 50, 100])
def test_a_whole_text_and_rows_are_counted_as_defined(remembered, monkeypatch):
    wanted = count_by_definition(TEXT, remembered)
    assert wanted[..., 0].max() > 1 and wanted[..., 1].max() > 0
    np.testing.assert_array_equal(both(count_text(np.array(TEXT[1:]), None, remembered)), wanted)
    monkeypatch.setattr(cache, "BLOCK", 10)                                 # a long text is counted in blocks
    np.testing.assert_array_equal(both(count_text(np.array(TEXT[1:]), None, remembered)), wanted)
    tokens = torch.tensor([TEXT])
    monkeypatch.setattr(cache, "COMPARED", 100)
    np.testing.assert_array_equal(both(count_targets(None, tokens[:, :-1], tokens[:, 1:], remembered))[0], wanted)


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_rows_may_be_cut_anywhere(cut):
    wanted, tokens = count_by_definition(TEXT, 7), torch.tensor([TEXT])
    state, found = start_cache(1, 7, torch.device("cpu")), []
    for read, targets in zip(tokens[:, :-1].split(cut, 1), tokens[:, 1:].split(cut, 1), strict=True):
        found.append(both(count_targets(state, read, targets, 7))[0])
        state = read_on(state, read)
    np.testing.assert_array_equal(np.concatenate(found), wanted)


def test_each_document_has_a_cache_of_its_own():
    first, second = TEXT[1:31], TEXT[31:]
    wanted = np.concatenate([count_by_definition([1, *each], 7) for each in (first, second)])
    ends = np.array([30, 60])
    np.testing.assert_array_equal(both(count_text(np.array(first + second), ends, 7)), wanted)
    assert not np.array_equal(both(count_text(np.array(first + second), None, 7)), wanted)


def test_pads_are_not_remembered():
    tokens = torch.tensor([[1, 2, 3, 0, 0], [1, 2, 3, 4, 2]])
    state = read_on(start_cache(2, 4, torch.device("cpu")), tokens, torch.tensor([3, 5]))
    assert state.words.tolist() == [[0, 1, 2, 3], [2, 3, 4, 2]]


def test_the_shares_are_those_of_the_definition():
    numbers = torch.tensor([[-1.0, 0.5], [0.3, -0.2], [0.1, 0.0], [0.0, 1.0], [2.0, 0.0]], dtype=torch.float64)
    counts = CacheCounts(torch.tensor([[10, 4, 0, 0, 0], [0, 0, 0, 0, 0]]), torch.tensor([[2, 3, 0, 0, 0], [0] * 5]))
    found = add_to_targets(numbers, torch.tensor([-3.0, -3.0], dtype=torch.float64), counts)
    weights = np.array([1.0, np.exp(-1 + 0.5 * np.log(10)), np.exp(0.3 - 0.2 * np.log(4))])
    wanted = weights @ [np.exp(-3), 2 / 10, 3 / 4] / weights.sum()
    np.testing.assert_allclose(found.exp(), [wanted, np.exp(-3)])


def test_the_fit_finds_that_a_text_repeats_itself():
    random = np.random.default_rng(1)
    names = random.integers(2, 1000, (40, 5))                               # each stretch has five words of its own
    text = np.concatenate([random.choice(own, 100) for own in names])
    counts, even = count_text(text, None, 50), torch.full((len(text),), -np.log(998))
    nothing = Contexts(torch.zeros(len(text), dtype=torch.long), torch.zeros(len(text), 0))
    _, numbers = fit_numbers(even, even, even, nothing, counts)
    loss = -float(add_to_targets(numbers, even, counts).mean())
    assert np.log(5) < loss < 0.42 * np.log(998)                            # five words are all that one can know
