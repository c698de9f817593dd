"""The back-off path: what each order said about a word, and how much of its probability came from there.

    p(w | c) = Σ_k  share_k + rest          share_k = γ_n γ_{n-1} ... γ_{k+1} (a_k - D_k) / total_k

k is an order: its context is the last k - 1 words, a_k how often w followed that context (below the highest order of a
Kneser-Ney model: after how many different words the k-gram was seen), total_k the same for any word, D_k the discount,
and γ_k what the context leaves to shorter ones; 1 where it was never seen. The rest is spread evenly over all words.
With add-k one context decides, the longest, and its share is the whole.

M targets · n order
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.models.ngram.counting import UNPREDICTED, Bools
from regard.models.ngram.lookup import find_contexts, within_text
from regard.models.ngram.order_table import OrderTable
from regard.models.ngram.room import Ints
from regard.models.ngram.smoothing import sums

Reals = NDArray[np.float64]


@dataclass
class Opinion:
    """The probabilities of one order for M words, each in its context of k - 1 words; (M,) each."""

    seen: Bools              # whether anything was seen after the context
    count: Ints              # a_k; -1 where the model has kept no counts
    total: Ints              # total_k; -1 likewise
    discount: Reals          # D_k; nan likewise
    weight: Reals            # γ_k
    own: Reals               # (a - D) / total
    whole: Reals             # p(w | c) by this order, where it has the k-gram; else nan


def path(
    orders: Sequence[OrderTable], history: Ints, targets: Ints, *, smoothing: str, k: float,
    discounts: Sequence[Sequence[float]], pruned: bool,
) -> dict[str, NDArray]:
    """The path of each target (M,) after its history (M, n-1), which has <pad> where there is none.

    By name, what each order said (M, n), from order 1 to n: seen, count, total, discount, weight; share; and rest (M,).
    """
    opinions = [_opinion(orders, history, targets, length, _taken(discounts, length), pruned)
                for length in range(1, len(orders) + 1)]
    columns = {name: np.stack([getattr(each, name) for each in opinions], axis=1)
               for name in ("seen", "count", "total", "discount", "weight")}
    if smoothing == "add-k":
        columns["weight"], share, rest = _decided_by_one(opinions, history, len(orders[0]) - UNPREDICTED, k)
        return {**columns, "share": share, "rest": rest}
    shares, left = [], np.ones(len(targets))
    for each, below in zip(opinions[::-1], _probabilities(opinions, len(orders[0]))[-2::-1], strict=True):
        own = each.own if (each.count >= 0).all() else np.nan_to_num(each.whole - each.weight * below)
        shares.append(left * own)
        left = left * each.weight
    rest = left / (len(orders[0]) - UNPREDICTED)
    rest[targets < UNPREDICTED] = 0
    return {**columns, "share": np.stack(shares[::-1], axis=1), "rest": rest}


def longest_seen(orders: Sequence[OrderTable], history: Ints) -> Ints:
    """(M,) the length of the longest n-gram whose context was seen: without smoothing, the one that decides."""
    seen = [_contexts(orders, history, length)[1] for length in range(1, len(orders) + 1)]
    return len(orders) - np.argmax(np.stack(seen, axis=1)[:, ::-1], axis=1)


def _contexts(orders: Sequence[OrderTable], history: Ints, length: int) -> tuple[Ints, Bools]:
    """(M,) the ids of the contexts of length - 1 words, and whether anything was seen after them."""
    rows, ids = np.arange(len(history)), np.zeros(len(history), np.int64)
    if length > 1:
        rows, found = find_contexts(list(orders), history, rows, length - 1)
        ids = np.full(len(history), -1)
        ids[rows] = found
    begin, end = orders[length - 1].first.between(ids[rows])
    seen = np.zeros(len(history), bool)
    seen[rows] = end > begin
    return ids, seen


def _opinion(
    orders: Sequence[OrderTable], history: Ints, targets: Ints, length: int, taken: Reals, pruned: bool
) -> Opinion:
    order, size = orders[length - 1], len(targets)
    contexts, seen = _contexts(orders, history, length)
    at = contexts[seen]
    ids = np.full(size, -1)
    ids[seen] = targets[seen] if length == 1 else order.find(at, targets[seen])
    ids[targets < UNPREDICTED] = -1
    there = ids >= 0
    weight = np.ones(size)
    if length > 1:
        weight[seen] = np.exp(orders[length - 2].backoff(at).astype(np.float64))
    whole = np.full(size, np.nan)
    whole[there] = np.exp(order.logprobs[ids[there]].astype(np.float64))
    if order.counts is None:
        none = np.full(size, -1)
        return Opinion(seen, none, none, np.full(size, np.nan), weight, whole, whole)
    count = np.zeros(size, np.int64)
    count[there] = order.counts[ids[there]]
    discount = taken[np.minimum(count, 3)]
    total = np.zeros(size)
    total[seen], discounted = _totals(order, at, taken)
    if length == 1:
        weight = discounted / total
    elif pruned:                                    # γ = (ΣD + pruned) / total, and total = Σa + pruned
        total[seen] = np.rint((total[seen] - discounted) / (1 - weight[seen]))
    own = np.divide(count - discount, total, out=np.zeros(size), where=there & (total > 0))
    return Opinion(seen, count, total.astype(np.int64), discount, weight, own, whole)


def _totals(order: OrderTable, contexts: Ints, taken: Reals) -> tuple[Reals, Reals]:
    """For each context Σ_w a(cw) and Σ_w D(a(cw)), over the words that were not pruned."""
    assert order.counts is not None
    distinct, which = np.unique(contexts, return_inverse=True)
    ids, of = order.following(distinct)
    counts = np.asarray(order.counts[ids], np.int64)
    return sums(of, counts, len(distinct))[which], sums(of, taken[np.minimum(counts, 3)], len(distinct))[which]


def _taken(discounts: Sequence[Sequence[float]], length: int) -> Reals:
    return np.array([0.0, *(discounts[length - 1] if len(discounts) else (0.0, 0.0, 0.0))])


def _probabilities(opinions: list[Opinion], vocab: int) -> list[Reals]:
    """p(w | c) by the orders from 0 up: as the highest order has it is the answer."""
    found = [np.full(len(opinions[0].seen), 1 / (vocab - UNPREDICTED))]
    for each in opinions:
        found.append(np.where(np.isnan(each.whole), each.weight * found[-1], each.whole))
    return found


def _decided_by_one(opinions: list[Opinion], history: Ints, words: int, k: float) -> tuple[Reals, Reals, Reals]:
    """γ, share and rest with add-k: the longest context that is in the text has it all."""
    size, n = len(history), len(opinions)
    length = np.ones(size, np.int64)
    for each in range(2, n + 1):
        length[within_text(history, each - 1)] = each
    at = (np.arange(size), length - 1)
    count, total = (np.stack([getattr(each, name) for each in opinions], axis=1)[at] for name in ("count", "total"))
    weight, share = np.where(np.arange(1, n + 1) > length[:, None], 1.0, 0.0), np.zeros((size, n))
    share[at] = np.where(count < 0, np.nan, (count + k) / (total + k * words))
    return weight, share, np.zeros(size)
