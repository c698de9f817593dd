"""Reading the table: the log-probability of words in their contexts, and of all words after one context.

    log p(w | c) = log p(cw)                       where cw was seen
                 = log γ(c) + log p(w | c')        where only c was: c' is c without its first word
                 = log p(w | c')                   where neither was

Both functions work upwards from the unigrams, order by order, and add in the same order: their numbers are
equal to the last bit. With add-k smoothing the table holds, in the place of γ, log p of a word not seen after c.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from regard.models.ngram.counting import BOS, PAD, UNPREDICTED, Bools, Ints
from regard.models.ngram.smoothing import Floats
from regard.models.ngram.table import Order

BLOCK = 1 << 17           # words at a time: what they need stays in the processor's cache


def score_words(orders: list[Order], words: Ints, additive: bool) -> tuple[Floats, Ints]:
    """log p of each word (N,) after those before it, and the length of the n-gram that gave it.

    <pad> separates texts: nothing is read across one. So is <bos>, which may only be the first of a text.
    """
    reach = len(orders) - 1
    values, lengths = np.empty(len(words)), np.empty(len(words), np.int8)
    for start in range(0, len(words), BLOCK):
        before = min(start, reach)                          # a block begins with the context of its first word
        block = slice(start, start + BLOCK)
        here = np.append(words[start - before:start + BLOCK], PAD)
        some_values, some_lengths = _score_block(orders, here, additive)
        values[block], lengths[block] = some_values[before:-1], some_lengths[before:-1]
    return values, lengths


def _score_block(orders: list[Order], words: Ints, additive: bool) -> tuple[Floats, Ints]:
    values = orders[0].logprobs[words].astype(np.float64)
    lengths = np.ones(len(words), np.int8)
    at = in_text = np.flatnonzero(words != PAD)             # where a known context of k - 1 words ends
    contexts = words[at]                                    # and which it is
    for k, (shorter, order) in enumerate(pairwise(orders), start=2):
        assert shorter.backoffs is not None
        after = at + 1
        if additive:
            values[in_text + 1] = uniform(len(orders[0].keys))
            in_text = in_text[words[in_text + 1] > BOS] + 1
            values[after] = shorter.backoffs[contexts]
        else:
            values[after] += shorter.backoffs[contexts]
        may = np.flatnonzero(lengths[after] == k - 1)       # a k-gram is there only if both its parts are
        after = after[may]
        found = order.find(contexts[may], words[after])
        there = np.flatnonzero(found >= 0)
        at, contexts = after[there], found[there]
        values[at] = order.logprobs[contexts]
        lengths[at] = k
    values[words < UNPREDICTED] = -np.inf
    return values, lengths


def all_words(orders: list[Order], history: Ints, additive: bool) -> Floats:
    """log p of every word (B, V) after each row of history (B, n-1), which has <pad> where there is none."""
    vocab = len(orders[0].keys)
    values = np.tile(orders[0].logprobs.astype(np.float64), (len(history), 1))
    rows = in_text = np.arange(len(history))
    for k, order in enumerate(orders[1:], start=2):
        rows, contexts = find_contexts(orders, history, rows, k - 1)
        if additive:
            in_text = in_text[_in_text(history[in_text], k - 1)]
            values[in_text] = uniform(vocab)
        backoffs = orders[k - 2].backoffs
        assert backoffs is not None
        if additive:
            values[rows] = backoffs[contexts][:, None]
        else:
            values[rows] += backoffs[contexts][:, None]
        ids, of = order.following(contexts)
        values[rows[of], order.keys[ids] % vocab] = order.logprobs[ids]
    values[:, :UNPREDICTED] = -np.inf
    return values


def find_contexts(orders: list[Order], history: Ints, rows: Ints, size: int) -> tuple[Ints, Ints]:
    """Which of these rows have a history whose last `size` words were seen together, and the ids of those."""
    ids = history[rows, -size]
    known = ids != PAD
    rows, ids = rows[known], ids[known]
    for k in range(2, size + 1):
        ids = orders[k - 1].find(ids, history[rows, k - 1 - size])
        known = ids >= 0
        rows, ids = rows[known], ids[known]
    return rows, ids


def _in_text(history: Ints, size: int) -> Bools:
    """Whether the last `size` words are of one text: no <pad>, and no <bos> but as the first."""
    last = history[:, history.shape[1] - size:]
    return (last[:, 0] != PAD) & (last[:, 1:] > BOS).all(axis=1)


def uniform(vocab: int) -> float:
    return float(-np.log(vocab - UNPREDICTED))
