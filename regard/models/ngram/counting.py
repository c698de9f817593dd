"""Counting n-grams: every distinct k-gram of every order, by sorting.

A k-gram is known by the id of its context (a (k-1)-gram) and its last word, packed into one 64-bit key:

    key = context id * vocab + word

The k-grams of an order are sorted by key, and a k-gram's id is its place in that order. So ids are dense, a
key fits in 64 bits whatever the vocabulary and the order, what continues a context stands side by side, and
the k-grams that begin with <bos> are one slice. A unigram's id is the word itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.models.ngram.room import Ints, Room

PAD, BOS, EOS, UNK = 0, 1, 2, 3
UNPREDICTED = 2           # ids 0 and 1, <pad> and <bos>, are never predicted: probabilities are over vocab - 2 words

Bools = NDArray[np.bool_]
MEMORY = Room()


@dataclass
class Grams:
    """The distinct k-grams of one order, sorted by key."""

    keys: Ints              # (N,) context id * vocab + word; for unigrams the word
    counts: Ints            # (N,) how often each occurs
    suffix: Ints            # (N,) the id, one order below, of the k-gram without its first word
    from_bos: slice         # those that begin with <bos>

    def __len__(self) -> int:
        return len(self.keys)


def framed(tokens: Ints, ends: Ints | None, vocab: int, room: Room = MEMORY) -> Ints:
    """The text as one sequence, in which every document begins with <bos> (one document when there are no ends)."""
    if len(tokens) == 0:
        raise DataError("no tokens to count: the text is empty")
    lowest, highest = int(tokens.min()), int(tokens.max())
    if lowest <= PAD or highest >= vocab:
        raise DataError(f"token ids must lie between 1 and {vocab - 1} (0 is <pad>): found {lowest} to {highest}")
    if highest <= BOS:
        raise DataError("no words to count: the text holds nothing but <bos>")
    starts = np.zeros(1, np.int64) if ends is None else document_starts(np.asarray(ends), len(tokens))
    starts = starts[np.asarray(tokens[starts]) != BOS]              # framed already
    sequence = room.pile(np.int32)
    for first in range(0, len(tokens), room.chunk):
        some = np.asarray(tokens[first:first + room.chunk], np.int32)
        here = starts[np.searchsorted(starts, first):np.searchsorted(starts, first + len(some))]
        sequence.add(np.insert(some, here - first, BOS))
    return sequence.array()


def document_starts(ends: Ints, total: int) -> Ints:
    if len(ends) == 0 or ends[-1] != total or ends[0] < 0 or np.any(ends[1:] < ends[:-1]):
        raise DataError(f"document ends must rise to the number of tokens, {total}")
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    return starts[starts < ends]                                    # an empty document says nothing


def count_grams(sequence: Ints, vocab: int, order: int, room: Room = MEMORY) -> list[Grams]:
    """The k-grams of orders 1 to `order`; none of them reaches back over a <bos>."""
    ids = sequence                                                  # the id of the k-gram that ends here, or -1
    found = [_unigrams(sequence, vocab, room)]
    while len(found) < order:
        grams, ids = _one_longer(sequence, ids, found[-1], vocab, room)
        found.append(grams)
    return found


def _unigrams(sequence: Ints, vocab: int, room: Room) -> Grams:
    words = np.arange(vocab)
    counts = np.zeros(vocab, np.int64)
    for start in range(0, len(sequence), room.chunk):
        counts += np.bincount(sequence[start:start + room.chunk], minlength=vocab)
    counts[BOS] = 0                                                 # it is read, and never predicted
    return Grams(words, counts, np.zeros_like(words), slice(BOS, BOS + 1))


def _one_longer(sequence: Ints, ids: Ints, shorter: Grams, vocab: int, room: Room) -> tuple[Grams, Ints]:
    """The k-grams, and which of them ends at each place, given the same for k - 1."""

    def keys_between(start: int, stop: int) -> tuple[Ints, Ints]:
        contexts, words = ids[start - 1:stop - 1], sequence[start:stop]
        whole = np.flatnonzero((contexts >= 0) & (words != BOS))
        keys = contexts[whole].astype(np.int64)
        keys *= vocab
        keys += words[whole]
        whole += start
        return keys, whole

    small = np.dtype(np.int32 if len(sequence) < 2**31 else np.int64)
    longer = room.filled(len(sequence), -1, small)
    distinct, counts, suffix, known = room.pile(np.int64), room.pile(small), room.pile(small), 0
    for keys, places in room.by_range(keys_between, len(sequence)):
        different, number, example, rank = _grouped(keys, small)
        rank += known
        longer[places] = rank
        distinct.add(different)
        counts.add(number)
        suffix.add(ids[places[example]])                            # of which every occurrence would tell the same
        known += len(different)
    array = distinct.array()
    bos = np.searchsorted(array, np.array([shorter.from_bos.start, shorter.from_bos.stop]) * vocab)
    return Grams(array, counts.array(), suffix.array(), slice(int(bos[0]), int(bos[1]))), longer


def _grouped(keys: NDArray[np.int64], small: np.dtype) -> tuple[Ints, Ints, Ints, Ints]:
    """The keys that differ, sorted, how often each occurs, one occurrence of each; for every occurrence which it is."""
    keys, places = sort_with_places(keys)
    first = np.empty(len(keys), bool)                               # where a new key begins
    first[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    rank = np.empty(len(keys), small)
    rank[places] = np.cumsum(first, dtype=small) - 1
    return keys[starts], np.diff(starts, append=len(keys)).astype(small), places[starts], rank


def sort_with_places(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ints]:
    """The keys sorted, and where each stood. Key and place share one word where they fit: 5 times faster to sort."""
    bits = max(len(keys) - 1, 1).bit_length()
    if len(keys) and int(keys.max()).bit_length() + bits > 63:
        places = np.argsort(keys)
        return keys[places], places
    packed = (keys << bits) | np.arange(len(keys))
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def adjusted_counts(grams: list[Grams], room: Room = MEMORY) -> Iterator[Ints]:
    """Kneser and Ney's counts: at the highest order how often; below, after how many different words.

    What begins with <bos> has nothing before it, and keeps its count.
    """
    for below, above in pairwise(grams):
        counts = np.zeros(len(below), np.int64)
        at_once = max(room.chunk, len(below))
        for start in range(0, len(above), at_once):
            counts += np.bincount(above.suffix[start:start + at_once], minlength=len(below))
        counts[below.from_bos] = below.counts[below.from_bos]
        yield counts
    yield grams[-1].counts
