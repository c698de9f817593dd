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
from regard.models.ngram.order_table import OrderTable
from regard.models.ngram.room import Floats, Ints

BLOCK = 1 << 15           # words at a time: what they need stays in the processor's cache


def score_documents(
    orders: list[OrderTable], tokens: Ints, starts: Ints, additive: bool, values: Floats,
    contexts: tuple[Ints, Floats] | None = None, matched: Ints | None = None,
) -> None:
    """log p of each token (N,) into `values`; a document begins at each of the starts, after a <bos> not written there.

    Nothing is read across a <pad> or a <bos> among the tokens. Into `contexts` go the length (N,) of the longest that
    was seen, and log γ (N, n-1) of each, 0 where one was never seen; into `matched` (N,) the length of the n-gram that
    gave log p. The text may lie in a file: little of it is held at a time.
    """
    reach = len(orders) - 1

    def score_block(first: int) -> None:
        begin = max(0, first - reach)                       # with the context of the first word
        some = tokens[begin:first + BLOCK]
        framed, places = _framed(some, starts[slice(*np.searchsorted(starts, (begin, begin + len(some))))] - begin)
        left = None if contexts is None else np.zeros((len(framed), reach), np.float32)
        scores, lengths = _score_block(orders, framed, additive, left)
        block, places = slice(first, first + BLOCK), places[first - begin:]
        values[block] = scores.take(places)
        if contexts is not None and left is not None:
            contexts[0][block] = np.minimum(lengths.take(places - 1), reach)           # a <bos> or a word stands before
            contexts[1][block] = left[places]
        if matched is not None:
            matched[block] = lengths.take(places)

    in_parallel(score_block, range(0, len(tokens), BLOCK))


def _framed(tokens: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """The tokens with <bos> before those at the starts, and <pad> last; and the places they have now."""
    is_token = np.ones(len(tokens) + len(starts) + 1, bool)
    is_token[starts + np.arange(len(starts))] = is_token[-1] = False
    places = np.flatnonzero(is_token)
    framed = np.full(len(is_token), BOS)
    framed[places], framed[-1] = tokens.astype(np.int64), PAD
    return framed, places


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


def _score_block(
    orders: list[OrderTable], words: Ints, additive: bool, left: Floats | None = None
) -> tuple[Floats, Ints]:
    """log p of each of these words, of which the last is <pad>, and the length of the n-gram that gave it."""
    values = orders[0].logprobs.take(words).astype(np.float64)
    lengths = np.ones(len(words), np.int8)
    at = in_text = np.flatnonzero(words != PAD)             # where the known contexts of k - 1 words end
    contexts = words.take(at)
    for k, (shorter, order) in enumerate(pairwise(orders), start=2):
        after, weights = at + 1, shorter.backoff(contexts)
        if additive:                                        # the longest context decides, be it known or not
            values[in_text + 1] = uniform(len(orders[0]))
            in_text = in_text[words[in_text + 1] > BOS] + 1
            values[after] = weights
        else:
            values[after] += weights
        if left is not None:
            left[after, k - 2] = weights
        may = np.flatnonzero(after[:-1] == at[1:])          # a k-gram is there only if both its parts are
        after = after.take(may)
        there, contexts = order.seek(contexts.take(may), words.take(after))
        at = after.take(there)                              # where they end
        values[at] = order.logprobs.take(contexts).astype(np.float64)
        lengths[at] = k
    values[np.flatnonzero(words < UNPREDICTED)] = -np.inf
    return values, lengths


def all_words(orders: list[OrderTable], history: Ints, additive: bool) -> tuple[Floats, Ints, Floats]:
    """log p of every word (B, V) after each row of history (B, n-1), which has <pad> where there is none; the length
    (B,) of the longest context at its end that was seen, and log γ (B, n-1) of each length, 0 where it was not seen."""
    vocab = len(orders[0])
    values = np.tile(orders[0].logprobs.astype(np.float64), (len(history), 1))
    lengths, left = np.zeros(len(history), np.int64), np.zeros((len(history), len(orders) - 1), np.float32)
    rows = in_text = np.arange(len(history))
    for k, order in enumerate(orders[1:], start=2):
        rows, contexts = find_contexts(orders, history, rows, k - 1)
        if additive:
            in_text = in_text[within_text(history[in_text], k - 1)]
            values[in_text] = uniform(vocab)
        weights = orders[k - 2].backoff(contexts)
        lengths[rows], left[rows, k - 2] = k - 1, weights
        if additive:
            values[rows] = weights[:, None]
        else:
            values[rows] += weights[:, None]
        ids, of = order.following(contexts)
        values[rows[of], order.words[ids]] = order.logprobs[ids]
    values[:, :UNPREDICTED] = -np.inf
    return values, lengths, left


def find_contexts(orders: list[OrderTable], history: Ints, rows: Ints, size: int) -> tuple[Ints, Ints]:
    """The rows whose history ends in `size` words that were seen together, and the ids of those."""
    ids = history[rows, -size]
    known = ids != PAD
    rows, ids = rows[known], ids[known]
    for k in range(2, size + 1):
        there, ids = orders[k - 1].seek(ids, history[rows, k - 1 - size])
        rows = rows[there]
    return rows, ids


def within_text(history: Ints, size: int) -> Bools:
    """True where the last `size` words are of one text: no <pad>, and no <bos> but as the first."""
    last = history[:, history.shape[1] - size:]
    return (last[:, 0] != PAD) & (last[:, 1:] > BOS).all(axis=1)


def uniform(vocab: int) -> float:
    return float(-np.log(vocab - UNPREDICTED))
