"""From words to ids for a whole text at once, without a Python object for each word.

Every word is hashed in one pass over the bytes: with powers p^i of an odd number, the sum of byte * p^i over a word,
divided by p to the power of its start, does not depend on where the word stands. Differences of one running sum give
the sums of all words. Arithmetic is modulo 2^64, where odd numbers can be divided by. Two words share a hash, which
holds their lengths too, with a chance of about 2^-64.   N words
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.text.vocabulary import EOS, FIRST, UNK

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
Ids = NDArray[np.int32]

T = TypeVar("T")
MANY = 4                                           # blocks that are worth more than one thread
BLOCK = 1 << 16                                    # bytes at a time: what they need stays in the processor's cache
BASE = np.uint64(0x9E3779B97F4A7C15)
INVERSE = np.uint64(pow(int(BASE), -1, 2**64))
SPACE = np.zeros(256, bool)
SPACE[list(b" \t\n")] = True
INSIDE = ~SPACE
AHEAD = 256                                        # bytes in which a word is expected to end


class WordIndex:
    """The ids of known words; any other is <unk>. Words hold no space, tab or newline."""

    def __init__(self, words: Sequence[str]):
        spelled = [word.encode() for word in words]
        text = np.frombuffer(b" ".join(spelled) + b" ", np.uint8)
        lengths = np.array([len(word) for word in spelled], np.int64)
        starts = np.cumsum(lengths + 1) - lengths - 1
        hashes = _hashes(text, starts, starts + lengths)
        order = np.argsort(hashes)
        self.hashes, self.ids = hashes[order], (FIRST + order).astype(np.int32)
        # Two known words of one hash could not be told apart; nobody has seen such words.
        self.distinct = bool((self.hashes[1:] != self.hashes[:-1]).all())
        bits = len(spelled).bit_length() + 2
        self.shift = np.uint64(64 - bits)          # the first bits of a hash say in which bucket its word stands
        buckets = np.arange(2**bits + 1, dtype=np.uint64)
        self.begin = np.searchsorted(self.hashes >> self.shift, buckets).astype(np.int32)
        first = np.minimum(self.begin[:-1], max(0, len(spelled) - 1))
        self.first_hash = self.hashes[first] if len(spelled) else np.zeros(2**bits, np.uint64)
        self.first_id = self.ids[first] if len(spelled) else np.full(2**bits, UNK, np.int32)

    def find(self, hashes: Hashes) -> Ids:
        """(N,) ids of the words with these hashes."""
        bucket = (hashes >> self.shift).view(np.int64)
        found = self.first_id.take(bucket)
        left = np.flatnonzero(self.first_hash.take(bucket) != hashes)
        found[left] = UNK
        at, stop = self.begin.take(bucket.take(left)), self.begin.take(bucket.take(left) + 1)
        while len(left):                           # a few words share a bucket; most that are left are unknown
            more = np.flatnonzero(at + 1 < stop)
            left, at, stop = left.take(more), at.take(more) + 1, stop.take(more)
            same = self.hashes.take(at) == hashes.take(left)
            found[left[same]] = self.ids.take(at[same])
            left, at, stop = left[~same], at[~same], stop[~same]
        return found

    def encode(self, text: bytes) -> Ids:
        """(N,) the ids of the words of a text."""
        parts = in_order(lambda part: self.find(_hashes(part, *_words(part))), _blocks(np.frombuffer(text, np.uint8)))
        return np.concatenate([np.zeros(0, np.int32), *parts])

    def encode_lines(self, text: bytes) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of the words of each line, with <eos> behind each line, and where each line ends.

        Every line ends with a newline, the last one too.
        """
        parts, ends, before = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], 0
        for tokens, here in in_order(self._lines_of, _blocks(np.frombuffer(text, np.uint8))):
            parts.append(tokens)
            ends.append(here + before)
            before += len(tokens)
        return np.concatenate(parts), np.concatenate(ends)

    def _lines_of(self, part: Bytes) -> tuple[Ids, NDArray[np.int64]]:
        starts, stops = _words(part)
        newlines = np.flatnonzero(part == ord("\n"))
        words = np.searchsorted(starts, newlines)                      # words before each newline
        ends = words + np.arange(1, len(newlines) + 1)                 # tokens up to and with its <eos>
        tokens = np.full(len(starts) + len(newlines), EOS, np.int32)
        is_word = np.ones(len(tokens), bool)
        is_word[ends - 1] = False
        tokens[is_word] = self.find(_hashes(part, starts, stops))
        return tokens, ends


def in_order(work: Callable[[Bytes], T], parts: list[Bytes]) -> Iterator[T]:
    """What the work makes of each part, on all cores where there are many: numpy lets go of the interpreter."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    threads = int(said) if said.isdigit() else os.cpu_count() or 1
    if threads <= 1 or len(parts) < MANY:
        yield from map(work, parts)
        return
    _powers(max(map(len, parts)))                                      # once, before anybody needs them
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, parts)


def _blocks(data: Bytes) -> list[Bytes]:
    """The text in pieces that end with a space, so that no word is cut; a giant word makes a giant piece."""
    parts, first = [], 0
    while first < len(data):
        stop = min(first + BLOCK, len(data))
        while stop < len(data) and not SPACE[data[stop - 1]]:
            following = np.flatnonzero(SPACE[data[stop:stop + AHEAD]])
            stop = stop + int(following[0]) + 1 if len(following) else min(stop + AHEAD, len(data))
        parts.append(data[first:stop])
        first = stop
    return parts


def _words(data: Bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where words start and stop."""
    inside = np.zeros(len(data) + 2, bool)
    inside[1:-1] = INSIDE.take(data)
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    return edges[::2], edges[1::2]


def _hashes(data: Bytes, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Hashes:
    """(N,) a hash of each word, and of its length."""
    powers, inverses = _powers(len(data))
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[:len(data)], out=sums[1:])
    mixed = (sums.take(stops) - sums.take(starts)) * inverses.take(starts)
    mixed ^= (stops - starts).view(np.uint64) << np.uint64(32)
    return (mixed ^ (mixed >> np.uint64(29))) * BASE


_known: list[tuple[Hashes, Hashes]] = []


def _powers(size: int) -> tuple[Hashes, Hashes]:
    """p^i and p^-i for all places of a block, worked out once; more for a giant word."""
    if not _known or len(_known[0][0]) < size:
        ones = np.ones(max(size, 2 * BLOCK), np.uint64)
        tables = []
        for base in (BASE, INVERSE):
            ones[1:] = base
            tables.append(np.multiply.accumulate(ones))
        _known[:] = [(tables[0], tables[1])]
    return _known[0]
