"""Reading the table: the log-probability of words in their contexts, and of all words after one context.

    log p(w | c) = log p(cw)                       where cw was seen
                 = log γ(c) + log p(w | c')        where only c was: c' is c without its first word
                 = log p(w | c')                   where neither was

Both functions work upwards from the unigrams, order by order, and add in the same order: their numbers are
equal to the last bit. With add-k smoothing the table holds, in the place of γ, log p of a word not seen after c.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch

from regard.models.ngram.counting import BOS, PAD, UNPREDICTED, Bools
from regard.models.ngram.room import Ints
from regard.models.ngram.smoothing import Floats
from regard.models.ngram.table import Order

BLOCK = 1 << 16           # words at a time: what they need stays in the processor's cache


def score_words(orders: list[Order], words: Ints, additive: bool) -> tuple[Floats, Ints]:
    """log p of each word (N,) after those before it, and the length of the n-gram that gave it.

    <pad> separates texts: nothing is read across one. So is <bos>, which may only be the first of a text.
    """
    reach, score = len(orders) - 1, _score_block_add_k if additive else _score_block
    values, lengths = np.empty(len(words)), np.empty(len(words), np.int8)

    def score_block(start: int) -> None:
        before = min(start, reach)                          # a block begins with the context of its first word
        block = slice(start, start + BLOCK)
        here = np.append(words[start - before:start + BLOCK], PAD)
        some_values, some_lengths = score(orders, here)
        values[block], lengths[block] = some_values[before:-1], some_lengths[before:-1]

    in_parallel(score_block, range(0, len(words), BLOCK))
    return values, lengths


def in_parallel(work: Callable[[int], None], starts: range) -> None:
    """The first by itself, for it may make the indices; the others on as many threads as torch may use."""
    for start in starts[:1]:
        work(start)
    threads = min(torch.get_num_threads(), len(starts) - 1)
    if threads <= 1:
        for start in starts[1:]:
            work(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, starts[1:]))                    # numpy lets go of the interpreter while it works


def _score_block(orders: list[Order], words: Ints) -> tuple[Floats, Ints]:
    values = orders[0].logprobs[words].astype(np.float64)
    lengths = np.ones(len(words), np.int8)
    at = np.arange(len(words) - 1)                          # where a known context of k - 1 words ends
    contexts = words[:-1]                                   # and which it is; nothing is known after <pad>
    for k, (shorter, order) in enumerate(pairwise(orders), start=2):
        after = at + 1
        if k == 2:
            values[1:] += shorter.backoff(contexts)
            found = order.find(contexts, words[1:])
        else:
            values[after] += shorter.backoff(contexts)
            may = np.flatnonzero(lengths.take(after) == k - 1)     # a k-gram is there only if both its parts are
            after = after.take(may)
            found = order.find(contexts.take(may), words.take(after))
        there = np.flatnonzero(found >= 0)
        at, contexts = after.take(there), found.take(there)
        values[at] = order.logprobs.take(contexts)
        lengths[at] = k
    values[words < UNPREDICTED] = -np.inf
    return values, lengths


def _score_block_add_k(orders: list[Order], words: Ints) -> tuple[Floats, Ints]:
    values = orders[0].logprobs[words].astype(np.float64)
    lengths = np.ones(len(words), np.int8)
    at = in_text = np.flatnonzero(words != PAD)             # where a known context of k - 1 words ends
    contexts = words[at]
    for k, (shorter, order) in enumerate(pairwise(orders), start=2):
        after = at + 1
        values[in_text + 1] = uniform(len(orders[0]))
        in_text = in_text[words[in_text + 1] > BOS] + 1
        values[after] = shorter.backoff(contexts)
        found = order.find(contexts, words[after])
        there = np.flatnonzero(found >= 0)
        at, contexts = after[there], found[there]
        values[at] = order.logprobs[contexts]
        lengths[at] = k
    values[words < UNPREDICTED] = -np.inf
    return values, lengths


def all_words(orders: list[Order], history: Ints, additive: bool) -> Floats:
    """log p of every word (B, V) after each row of history (B, n-1), which has <pad> where there is none."""
    vocab = len(orders[0])
    values = np.tile(orders[0].logprobs.astype(np.float64), (len(history), 1))
    rows = in_text = np.arange(len(history))
    for k, order in enumerate(orders[1:], start=2):
        rows, contexts = find_contexts(orders, history, rows, k - 1)
        if additive:
            in_text = in_text[within_text(history[in_text], k - 1)]
            values[in_text] = uniform(vocab)
        weights = orders[k - 2].backoff(contexts)[:, None]
        if additive:
            values[rows] = weights
        else:
            values[rows] += weights
        ids, of = order.following(contexts)
        values[rows[of], order.words[ids]] = order.logprobs[ids]
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


def within_text(history: Ints, size: int) -> Bools:
    """Whether the last `size` words are of one text: no <pad>, and no <bos> but as the first."""
    last = history[:, history.shape[1] - size:]
    return (last[:, 0] != PAD) & (last[:, 1:] > BOS).all(axis=1)


def uniform(vocab: int) -> float:
    return float(-np.log(vocab - UNPREDICTED))
