"""Where the n-grams are kept and found: for each order a sorted array of keys, and its log-probabilities.

Finding is done for many n-grams at once. A few are found by binary search; many through a hash index, made on
first use: an array of slots, each an id or -1, at most half full, where a key that finds its slot taken moves
on to the next one. Where keys are dense enough (characters) the key is its own slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from regard.models.ngram.counting import Ints
from regard.models.ngram.smoothing import Floats

DENSE = 2**20                               # a key space up to this is laid out whole, whatever it holds
SPREAD = np.uint64(0x9E3779B97F4A7C15)      # 2^64 / golden ratio: multiplying by it scatters nearby keys
FEW = 512                                   # fewer queries than this do not repay making an index


@dataclass
class Order:
    """The k-grams of one order."""

    keys: Ints
    logprobs: Floats
    backoffs: Floats | None                 # none at the highest order
    contexts: int                           # how many (k-1)-grams there are
    vocab: int
    index: Index | None = field(default=None, repr=False)

    def find(self, contexts: Ints, words: Ints) -> Ints:
        """The ids of these k-grams, -1 for one that is not there. Every context must be an id."""
        wanted = np.multiply(contexts, self.vocab, dtype=np.int64) + words
        if len(self.keys) == 0:
            return np.full(len(wanted), -1)
        if self.index is None and len(wanted) < FEW:
            places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            return np.where(self.keys[places] == wanted, places, -1)
        if self.index is None:
            self.index = Index(self.keys, self.contexts * self.vocab)
        return self.index.find(wanted)

    def following(self, contexts: Ints) -> tuple[Ints, Ints]:
        """All k-grams with these contexts: their ids, and for each the place of its context in the list."""
        first = np.multiply(contexts, self.vocab, dtype=np.int64)
        edges = np.searchsorted(self.keys, np.stack([first, first + self.vocab], axis=1))                 # (C, 2)
        sizes = edges[:, 1] - edges[:, 0]
        of = np.repeat(np.arange(len(contexts)), sizes)
        ids = np.arange(len(of)) + np.repeat(edges[:, 0] - np.cumsum(sizes) + sizes, sizes)
        return ids, of


class Index:
    """From key to id in about one step."""

    def __init__(self, keys: Ints, space: int) -> None:
        self.keys = keys
        self.small = np.dtype(np.int32 if len(keys) < 2**31 else np.int64)
        self.direct = space <= max(8 * len(keys), DENSE)
        self.bits = np.uint64(max(2 * len(keys), 2).bit_length())
        self.slots = self._spread_out() if not self.direct else self._laid_out(space)

    def _laid_out(self, space: int) -> Ints:
        slots = np.full(space, -1, self.small)
        slots[self.keys] = np.arange(len(self.keys))
        return slots

    def _spread_out(self) -> Ints:
        slots: Ints = np.full(1 << int(self.bits), -1, self.small)
        waiting = np.arange(len(self.keys), dtype=self.small)
        at = self._slot(self.keys)
        while len(waiting):
            free = slots[at] < 0
            slots[at[free]] = waiting[free]            # where several want one slot, the last has it
            lost = slots[at] != waiting
            waiting, at = waiting[lost], self._next(at[lost])
        return slots

    def _slot(self, keys: Ints) -> Ints:
        return ((keys.view(np.uint64) * SPREAD) >> (np.uint64(64) - self.bits)).view(np.int64)

    def _next(self, at: Ints) -> Ints:
        return (at + 1) & ((1 << int(self.bits)) - 1)

    def find(self, wanted: Ints) -> Ints:
        if self.direct:
            return self.slots[wanted]
        at = self._slot(wanted)
        found = self.slots[at]
        wrong = np.flatnonzero((found >= 0) & (self.keys[found] != wanted))
        at = at[wrong]
        while len(wrong):
            at = self._next(at)
            found[wrong] = other = self.slots[at]
            still = (other >= 0) & (self.keys[other] != wanted[wrong])
            wrong, at = wrong[still], at[still]
        return found
