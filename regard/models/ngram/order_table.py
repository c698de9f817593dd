"""Tables of n-grams: for each order the words that follow each context, sorted, side by side.

A k-gram's id is its place in that row. It is read as it lies in a mapped file, and only the pages that are asked
for are fetched: a few k-grams are found by binary search among the words of their context. Once many have been
asked for, a hash index is made: an array of slots, each an id or -1, at most a third full, where a key that finds its
slot taken moves on to the next one. Where keys are dense enough (characters) the key is its own slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regard.models.ngram.packed import Coded, Pointers
from regard.models.ngram.room import Floats, Ints

DENSE = 2**20                               # a key space up to this is laid out whole, whatever it holds
SPREAD = np.uint64(0x9E3779B97F4A7C15)      # 2^64 / golden ratio: multiplying by it scatters nearby keys
REPAID = 4                                  # an index is worth making after one query for so many k-grams
PACKED = 63                                 # bits in which a slot may hold a key and an id
FEW = 16                                    # queries that are searched one by one
ROOM = 3                                    # slots for each key, at least: fewer meet where there are more


@dataclass
class OrderTable:
    """The k-grams of one order."""

    words: Ints                             # (N,) the last word of each
    first: Pointers                         # of C contexts, which are the (k-1)-grams
    logprobs: Floats                        # (N,)
    backoffs: Floats | Coded | None         # (N,); none at the highest order
    vocab: int
    counts: Ints | Coded | None = None      # (N,) as they were smoothed, if they were kept
    index: Index | None = field(default=None, repr=False)
    weights: Floats | None = field(default=None, repr=False)
    asked: int = field(default=0, repr=False)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def keys(self) -> Ints:
        """(N,) context * vocab + word."""
        return np.repeat(np.arange(len(self.first)) * self.vocab, self.first.sizes()) + self.words

    def backoff(self, ids: Ints) -> Floats:
        """log γ of these contexts of the next order (for add-k, log p of a word not seen there)."""
        assert self.backoffs is not None, "the highest order is no context"
        return self.backoffs[ids] if self.weights is None else self.weights.take(ids)

    def find(self, contexts: Ints, words: Ints) -> Ints:
        """The ids of these k-grams, -1 for one that is not there. Every context must be an id."""
        ids = np.full(len(words), -1)
        there, found = self.seek(contexts, words)
        ids[there] = found
        return ids

    def seek(self, contexts: Ints, words: Ints) -> tuple[Ints, Ints]:
        """The k-grams that are there, and the ids of those. Every context must be an id."""
        if len(self) == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        if self.index is None and (self.asked + len(words)) * REPAID < len(self):
            self.asked += len(words)
            return _present(self._search_each(contexts, words) if len(words) <= FEW else self._search(contexts, words))
        if self.index is None:
            self.index = Index(self.keys, len(self.first) * self.vocab)
            self.weights = None if self.backoffs is None else self.backoffs[:]      # from now on, speed before bytes
        wanted = np.multiply(contexts, self.vocab, dtype=np.int64)
        wanted += words
        return self.index.seek(wanted)

    def _search_each(self, contexts: Ints, words: Ints) -> Ints:
        found = np.full(len(words), -1)
        for i, (start, stop) in enumerate(np.stack(self.first.between(contexts), axis=1).tolist()):
            place = start + int(np.searchsorted(self.words[start:stop], words[i].astype(self.words.dtype)))
            if place < stop and self.words[place] == words[i]:
                found[i] = place
        return found

    def _search(self, contexts: Ints, words: Ints) -> Ints:
        """Binary search, for all of them at once."""
        low, stop = self.first.between(contexts)
        high, last = stop.copy(), len(self) - 1
        for _ in range(int((high - low).max()).bit_length()):
            middle = (low + high) >> 1
            below = (self.words[np.minimum(middle, last)] < words) & (low < high)
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        return np.where((low < stop) & (self.words[np.minimum(low, last)] == words), low, -1)

    def following(self, contexts: Ints) -> tuple[Ints, Ints]:
        """All k-grams with these contexts: their ids, and for each the place of its context in the list."""
        start, stop = self.first.between(contexts)
        sizes = stop - start
        of = np.repeat(np.arange(len(contexts)), sizes)
        ids = np.arange(len(of)) + np.repeat(start - np.cumsum(sizes) + sizes, sizes)
        return ids, of


class Index:
    """From key to id in about one step. Where both fit into 63 bits, a slot holds the key too: one look tells all."""

    def __init__(self, keys: Ints, space: int) -> None:
        small = np.dtype(np.int32 if len(keys) < 2**31 else np.int64)
        ids = np.arange(len(keys), dtype=small)
        self.direct = space <= max(8 * len(keys), DENSE)
        self.bits = np.uint64(max(ROOM * len(keys), 2).bit_length())
        self.shift = max(len(keys) - 1, 1).bit_length()
        self.keys = None if space.bit_length() + self.shift <= PACKED else keys
        if self.direct:
            self.slots: Ints = np.full(space, -1, small)
            self.slots[keys] = ids
        else:
            self.slots = self._spread_out(keys, (keys << self.shift) | ids if self.keys is None else ids)

    def _spread_out(self, keys: Ints, entries: Ints) -> Ints:
        slots = np.full(1 << int(self.bits), -1, entries.dtype)
        at = self._slot(keys)
        while len(entries):
            free = slots[at] < 0
            slots[at[free]] = entries[free]            # where several want one slot, the last has it
            lost = slots[at] != entries
            entries, at = entries[lost], self._next(at[lost])
        return slots

    def _slot(self, keys: Ints) -> Ints:
        return ((keys.view(np.uint64) * SPREAD) >> (np.uint64(64) - self.bits)).view(np.int64)

    def _next(self, at: Ints) -> Ints:
        return (at + 1) & ((1 << int(self.bits)) - 1)

    def seek(self, wanted: Ints) -> tuple[Ints, Ints]:
        """The keys that are there, and the ids of those."""
        if self.direct:
            return _present(self.slots.take(wanted))
        at = self._slot(wanted)
        found = self.slots.take(at)
        same = self._hold(found, wanted)
        left = np.flatnonzero((found >= 0) > same)     # the slot is taken, but by another key
        at, asked = at.take(left), wanted.take(left)
        while len(left):
            at = self._next(at)
            found[left] = other = self.slots.take(at)
            same[left] = right = self._hold(other, asked)
            still = np.flatnonzero((other >= 0) > right)
            left, at, asked = left.take(still), at.take(still), asked.take(still)
        there = np.flatnonzero(same)
        ids = found.take(there)
        return there, ids & ((1 << self.shift) - 1) if self.keys is None else ids

    def _hold(self, entries: Ints, wanted: Ints) -> NDArray[np.bool_]:
        """True where these slots hold the wanted keys; an empty one holds none."""
        if self.keys is None:
            return entries >> self.shift == wanted
        return (self.keys[entries] == wanted) & (entries >= 0)


def _present(ids: Ints) -> tuple[Ints, Ints]:
    there = np.flatnonzero(ids >= 0)
    return there, ids.take(there)
