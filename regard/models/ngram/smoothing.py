"""From counts to probabilities, order by order; and the two simplest ways, both straight from the textbook.

    none     p(w | c) = n(cw) / n(c·)                       zero where cw was never seen
    add-k    p(w | c) = (n(cw) + k) / (n(c·) + k (V - 2))   V - 2: all words but <pad> and <bos>

For `none` a context that was never seen has no opinion, and the longest one that was is asked instead; for
`add-k` it leaves n = 0, the uniform distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from regard.models.ngram.counting import MEMORY, UNPREDICTED, Bools, Grams
from regard.models.ngram.order_table import OrderTable
from regard.models.ngram.packed import Pointers, coded, smallest
from regard.models.ngram.room import Floats, Ints, Room

AT_ONCE = 1 << 20            # k-grams smoothed at a time


@dataclass
class Stretch:
    """Some k-grams that stand together, with all that share their contexts."""

    counts: Ints             # (N,)
    kept: Bools              # (N,) False for one that is pruned
    of: Ints                 # (N,) which of the C contexts is its own
    contexts: int            # C
    below: Floats            # (N,) p of each without its first word


class SmoothingRule:
    """The equation by which counts become probabilities."""

    def __init__(self) -> None:
        self.discounts: list[list[float]] = []
        self.notes: list[str] = []

    def begin(self, order: int, counts: Ints) -> None:
        """Look at all the counts of an order."""

    def smooth(self, part: Stretch) -> tuple[Floats, Floats]:
        """p of each k-gram (N,), and of each context (C,) its weight γ; for add-k p of any word not seen there."""
        raise NotImplementedError


class Unsmoothed(SmoothingRule):
    """Counted and normalised."""

    def smooth(self, part: Stretch) -> tuple[Floats, Floats]:
        total = sums(part.of, part.counts, part.contexts)
        return part.counts / total[part.of], np.where(total > 0, 0.0, 1.0)


class AddK(SmoothingRule):
    """As if everything had been seen k times more."""

    def __init__(self, k: float, vocab: int) -> None:
        super().__init__()
        self.k, self.vocab = k, vocab

    def smooth(self, part: Stretch) -> tuple[Floats, Floats]:
        total = sums(part.of, part.counts, part.contexts) + self.k * (self.vocab - UNPREDICTED)
        return (part.counts + self.k) / total[part.of], self.k / total


def smooth(
    grams: list[Grams], counts: Iterable[Ints], rule: SmoothingRule, vocab: int, *, dtype: DTypeLike = np.float64,
    prune: tuple[int, ...] = (), keep_counts: bool = True, room: Room = MEMORY,
) -> list[OrderTable]:
    """The table of each order by the rule. With `prune`, k-grams seen at most prune[k - 1] times are left out."""
    orders: list[OrderTable] = []
    below: Floats = np.array([1 / (vocab - UNPREDICTED)])           # order 0: the uniform distribution
    stayed = np.ones(1, bool)                                       # of the contexts, which are not pruned
    for order, (each, amounts) in enumerate(zip(grams, counts, strict=True), start=1):
        rule.begin(order, amounts)
        threshold = prune[order - 1] if prune else 0
        making = _Making(vocab, dtype, keep_counts, room)
        for some, contexts in _stretches(each, vocab, len(below), room):
            kept = each.counts[some] > threshold if threshold else np.ones(some.stop - some.start, bool)
            of = each.keys[some] // vocab - contexts.start
            part = Stretch(amounts[some], kept, of, contexts.stop - contexts.start, below[each.suffix[some]])
            p, weights = rule.smooth(part)
            if order == 1:
                p[:UNPREDICTED] = 0
            making.add(part, each.keys[some] % vocab, p, weights, stayed[contexts])
        below, stayed = making.finish(orders)
    return orders


def _stretches(each: Grams, vocab: int, contexts: int, room: Room) -> Iterator[tuple[slice, slice]]:
    """The k-grams in stretches that divide no context, each with its contexts; those that nothing follows come too."""
    first = context = 0
    while context < contexts:
        stop, end = min(first + min(room.chunk, AT_ONCE), len(each)), contexts
        if stop < len(each):
            end = int(each.keys[stop - 1]) // vocab + 1
            stop = int(np.searchsorted(each.keys, end * vocab))
        yield slice(first, stop), slice(context, end)
        first, context = stop, end


class _Making:
    """One order in the making."""

    def __init__(self, vocab: int, dtype: DTypeLike, keep_counts: bool, room: Room) -> None:
        self.vocab = vocab
        self.probabilities, self.stayed = room.pile(np.float64), room.pile(bool)         # of all, for the next order
        self.words, self.sizes = room.pile(smallest(vocab - 1)), room.pile(np.int32)     # of those that stay
        self.logprobs, self.backoffs = room.pile(dtype), room.pile(dtype)
        self.counts = room.pile(np.int64) if keep_counts else None

    def add(self, part: Stretch, words: Ints, p: Floats, weights: Floats, stayed: Bools) -> None:
        kept = part.kept
        self.probabilities.add(p)
        self.stayed.add(kept)
        self.words.add(words[kept])
        self.logprobs.add(log(p[kept]))
        self.sizes.add(np.bincount(part.of[kept], minlength=part.contexts)[stayed])
        self.backoffs.add(log(weights)[stayed])
        if self.counts is not None:
            self.counts.add(part.counts[kept])

    def finish(self, orders: list[OrderTable]) -> tuple[Floats, Bools]:
        """Append the order to those below it; return p of all its k-grams, and which of them stay."""
        kept = None if self.counts is None else self.counts.array()
        counts = None if kept is None else coded(kept.astype(smallest(int(kept.max(initial=0)))))
        if orders:                                                  # the empty context has nothing below it
            weights = self.backoffs.array()
            orders[-1].backoffs = coded(weights) if len(orders) > 1 else weights
        orders.append(OrderTable(self.words.array(), Pointers.from_sizes(self.sizes.array()), self.logprobs.array(),
                                 None, self.vocab, counts))
        return self.probabilities.array(), self.stayed.array()


def sums(groups: Ints, amounts: Ints | Floats, count: int) -> NDArray[np.float64]:
    """The sum of the amounts in each of `count` groups."""
    return np.bincount(groups, weights=amounts, minlength=count).astype(np.float64, copy=False)


def log(x: Floats) -> Floats:
    """log, with log 0 = -inf."""
    with np.errstate(divide="ignore"):
        return np.log(x)
