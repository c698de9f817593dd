"""From words to ids for a whole text at once, without a Python object for each word.

A word's first eight bytes are read as one number, with zeros behind the word where it is shorter, and multiplied by an
odd number: a hash that no two such words share. To a longer word each eight bytes more are added, and it is multiplied
again: it shares its hash with another word with a chance of about 2^-64.   N words
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.data.tokens.vocabulary import EOS, FIRST, UNK

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
Ids = NDArray[np.int32]
Places = NDArray[np.int64]

T = TypeVar("T")
MANY = 4                                           # blocks that are worth more than one thread
BLOCK = 1 << 17                                    # bytes at a time: what they need stays in the processor's cache
BASE = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
SPACE = np.zeros(256, bool)
SPACE[list(b" \t\n")] = True
EIGHT = 8                                          # bytes read as one number
SPACES = np.frombuffer(b" " * EIGHT, np.uint64)[0]
KEPT = np.array([b"\xff" * size for size in range(EIGHT + 1)], f"S{EIGHT}").view(np.uint64)   # the bytes of short words
AHEAD = 256                                        # bytes in which a word is expected to end


class WordIndex:
    """The ids of known words; any other is <unk>. Words hold no space, tab or newline."""

    def __init__(self, words: Sequence[str]):
        spelled = [word.encode() for word in words]
        lengths = np.array([len(word) for word in spelled], np.int64)
        self.longest = int(lengths.max(initial=0))
        hashes = _hashes(_padded(b" ".join(spelled)), np.cumsum(lengths + 1) - lengths - 1, lengths)
        # Two known words of one hash could not be told apart; nobody has seen such words.
        self.distinct = len(np.unique(hashes)) == len(spelled)
        bits = len(spelled).bit_length() + 2
        self.shift = np.uint64(64 - bits)          # the first bits of a hash say in which bucket its word stands
        order = np.argsort(hashes >> self.shift, kind="stable")        # in a bucket the first word is the most frequent
        self.hashes, self.ids = hashes[order], (FIRST + order).astype(np.int32)
        buckets = np.arange(2**bits + 1, dtype=np.uint64)
        self.begin = np.searchsorted(self.hashes >> self.shift, buckets).astype(np.int32)
        first = np.minimum(self.begin[:-1], max(0, len(spelled) - 1))
        self.first_hash = self.hashes[first] if len(spelled) else np.zeros(2**bits, np.uint64)
        self.first_id = self.ids[first] if len(spelled) else np.full(2**bits, UNK, np.int32)

    def find(self, hashes: Hashes) -> Ids:
        """(N,) ids of the words with these hashes."""
        bucket = (hashes >> self.shift).view(np.int64)
        ids = self.first_id.take(bucket)
        left = np.flatnonzero(self.first_hash.take(bucket) != hashes)
        ids[left] = UNK
        entry, stop = self.begin.take(bucket.take(left)), self.begin.take(bucket.take(left) + 1)
        while len(left):                           # a few words share a bucket; most that are left are unknown
            more = np.flatnonzero(entry + 1 < stop)
            left, entry, stop = left.take(more), entry.take(more) + 1, stop.take(more)
            same = self.hashes.take(entry) == hashes.take(left)
            ids[left[same]] = self.ids.take(entry[same])
            left, entry, stop = left[~same], entry[~same], stop[~same]
        return ids

    def encode(self, text: bytes) -> Ids:
        """(N,) the ids of the words of a text."""
        data = _padded(text)
        parts = in_order(lambda block: self._ids(data, *_words(data, block)[:2]), _blocks(data))
        return np.concatenate([np.zeros(0, np.int32), *parts])

    def encode_lines(self, text: bytes) -> tuple[Ids, Places]:
        """The ids of the words of each line, with <eos> behind each line, and where each line ends.

        Every line ends with a newline, the last one too.
        """
        data = _padded(text)
        parts, ends, total = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], 0

        def lines_of(block: slice) -> tuple[Ids, Places]:
            starts, lengths, before = _words(data, block)
            return np.insert(self._ids(data, starts, lengths), before, EOS), before + np.arange(1, len(before) + 1)

        for tokens, here in in_order(lines_of, _blocks(data)):
            parts.append(tokens)
            ends.append(here + total)
            total += len(tokens)
        return np.concatenate(parts), np.concatenate(ends)

    def _ids(self, data: Bytes, starts: Places, lengths: Places) -> Ids:
        lengths = np.minimum(lengths, self.longest + 1)                # enough to see that it is no known word
        return self.find(_hashes(data, starts, lengths))


def in_order(work: Callable[[slice], T], blocks: list[slice]) -> Iterator[T]:
    """Yield the result of the work on each block, on all cores where there are many: numpy releases the GIL."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    threads = int(said) if said.isdigit() else os.cpu_count() or 1
    if threads <= 1 or len(blocks) < MANY:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, blocks)


def _padded(text: bytes) -> Bytes:
    """The text with a space behind its last word, and so many that eight bytes can be read from every place of it."""
    return np.frombuffer(text + b" " * EIGHT, np.uint8)


def _blocks(data: Bytes) -> list[slice]:
    """The text in pieces that end with a space, so that no word is cut; a giant word makes a giant piece."""
    blocks, first, total = [], 0, len(data) - EIGHT + 1
    while first < total:
        stop = min(first + BLOCK, total)
        while not SPACE[data[stop - 1]]:                               # the last byte is a space
            following = np.flatnonzero(SPACE[data[stop:stop + AHEAD]])
            stop = stop + int(following[0]) + 1 if len(following) else stop + AHEAD
        blocks.append(slice(first, stop))
        first = stop
    return blocks


def _words(data: Bytes, block: slice) -> tuple[Places, Places, Places]:
    """The starts and lengths of the words of a block, and the number of words before each newline."""
    part = data[block]
    gaps = np.flatnonzero((part == ord(" ")) | (part == ord("\n")) | (part == ord("\t")))
    starts = np.append(0, gaps[:-1] + 1)
    lengths = gaps - starts
    newlines = np.flatnonzero(part.take(gaps) == ord("\n"))
    if lengths.all():                                                  # a word before every gap
        return starts + block.start, lengths, newlines + 1
    real = np.flatnonzero(lengths)
    return starts.take(real) + block.start, lengths.take(real), np.searchsorted(real, newlines, side="right")


def _hashes(data: Bytes, starts: Places, lengths: Places) -> Hashes:
    """(N,) a hash of each word."""
    hashes = _eight(data, starts, lengths) * BASE
    long = np.flatnonzero(lengths > EIGHT)
    starts, lengths = starts.take(long), lengths.take(long)
    while len(long):
        starts, lengths = starts + EIGHT, lengths - EIGHT
        so_far = hashes.take(long)
        hashes[long] = ((so_far ^ (so_far >> HALF)) + _eight(data, starts, lengths)) * BASE
        more = np.flatnonzero(lengths > EIGHT)
        long, starts, lengths = long.take(more), starts.take(more), lengths.take(more)
    return hashes


def _eight(data: Bytes, starts: Places, lengths: Places) -> Hashes:
    """(N,) the first eight bytes of each word as a number, with zeros behind it: a space is made zero, and no other."""
    anywhere = np.ndarray(len(data) - EIGHT + 1, f"V{EIGHT}", data, strides=(1,))      # the eight bytes at every place
    return (anywhere[starts].view(np.uint64) ^ SPACES) & KEPT.take(lengths, mode="clip")
