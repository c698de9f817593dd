"""Counting n-grams: every distinct k-gram of every order, by sorting.

A k-gram is known by the id of its context (a (k-1)-gram) and its last word, packed into one 64-bit key:

    key = context id * vocab + word

The k-grams of an order are sorted by key, and a k-gram's id is its place in that order. So ids are dense, a
key fits in 64 bits whatever the vocabulary and the order, what continues a context stands side by side, and
the k-grams that begin with <bos> are one slice. A unigram's id is the word itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError

PAD, BOS, EOS, UNK = 0, 1, 2, 3
UNPREDICTED = 2           # ids 0 and 1, <pad> and <bos>, are never predicted: probabilities are over vocab - 2 words

Ints = NDArray[Any]          # of whichever width
Bools = NDArray[np.bool_]


@dataclass
class Grams:
    """The distinct k-grams of one order, sorted by key."""

    keys: Ints              # (N,) context id * vocab + word; for unigrams the word
    counts: Ints            # (N,) how often each occurs
    suffix: Ints            # (N,) the id, one order below, of the k-gram without its first word
    from_bos: slice         # those that begin with <bos>

    def __len__(self) -> int:
        return len(self.keys)


def framed(tokens: Ints, ends: Ints | None, vocab: int) -> Ints:
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
    return np.insert(np.asarray(tokens, np.int32), starts, BOS)


def document_starts(ends: Ints, total: int) -> Ints:
    if len(ends) == 0 or ends[-1] != total or ends[0] < 0 or np.any(np.diff(ends) < 0):
        raise DataError(f"document ends must rise to the number of tokens, {total}")
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    return starts[starts < ends]                                    # an empty document says nothing


def count_grams(sequence: Ints, vocab: int, order: int) -> list[Grams]:
    """The k-grams of orders 1 to `order`; none of them reaches back over a <bos>."""
    ids = sequence                                                  # the id of the k-gram that ends here, or -1
    found = [_unigrams(sequence, vocab)]
    while len(found) < order:
        grams, ids = _one_longer(sequence, ids, found[-1], vocab)
        found.append(grams)
    return found


def _unigrams(sequence: Ints, vocab: int) -> Grams:
    words = np.arange(vocab)
    counts = np.bincount(sequence, minlength=vocab)
    counts[BOS] = 0                                                 # it is read, and never predicted
    return Grams(words, counts, np.zeros_like(words), slice(BOS, BOS + 1))


def _one_longer(sequence: Ints, ids: Ints, shorter: Grams, vocab: int) -> tuple[Grams, Ints]:
    """The k-grams, and which of them ends at each place, given the same for k - 1."""
    whole = (ids[:-1] >= 0) & (sequence[1:] != BOS)
    keys = ids[:-1][whole].astype(np.int64)
    keys *= vocab
    keys += sequence[1:][whole]
    keys, places = sort_with_places(keys)

    first = np.empty(len(keys), bool)                               # where a new key begins
    first[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    small = np.dtype(np.int32 if len(keys) < 2**31 else np.int64)
    rank = np.empty(len(keys), small)
    rank[places] = np.cumsum(first, dtype=small) - 1

    longer = np.full(len(sequence), -1, small)
    longer[1:][whole] = rank
    distinct = keys[starts]
    bos = np.searchsorted(distinct, np.array([shorter.from_bos.start, shorter.from_bos.stop]) * vocab)
    counts = np.diff(starts, append=len(keys)).astype(small)
    return Grams(distinct, counts, ids[1:][whole][places[starts]], slice(int(bos[0]), int(bos[1]))), longer


def sort_with_places(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ints]:
    """The keys sorted, and where each stood. Key and place share one word where they fit: 5 times faster to sort."""
    bits = max(len(keys) - 1, 1).bit_length()
    if len(keys) and int(keys.max()).bit_length() + bits > 63:
        places = np.argsort(keys)
        return keys[places], places
    packed = (keys << bits) | np.arange(len(keys))
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def adjusted_counts(grams: list[Grams]) -> list[Ints]:
    """Kneser and Ney's counts: at the highest order how often; below, after how many different words.

    What begins with <bos> has nothing before it, and keeps its count.
    """
    adjusted: list[Ints] = []
    for below, above in pairwise(grams):
        counts = np.bincount(above.suffix, minlength=len(below))
        counts[below.from_bos] = below.counts[below.from_bos]
        adjusted.append(counts)
    return [*adjusted, grams[-1].counts.copy()]
