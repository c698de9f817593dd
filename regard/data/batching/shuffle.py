"""A random order that is never written down: position -> item, as a pure function of a key.

A Feistel network (Luby and Rackoff 1988) is a bijection on the numbers of 2k bits whatever its round function.
For n items it runs on the next power of four, and whatever falls outside [0, n) is sent through again until
it falls inside (cycle walking). Memory is that of the positions asked for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.corpora.shapes_scenes import mix as hash_bits

Words = NDArray[np.uint64]

ROUNDS = 6
_ALL = 2**64 - 1


def key_of(*parts: int) -> int:
    """One 64-bit key from several numbers, in order."""
    key = 0
    for part in parts:
        key = (key + part * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & _ALL
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _ALL
        key ^= key >> 31
    return key


def mix(values: Words, key: int) -> Words:
    """Scramble 64-bit words with a key (the finaliser of splitmix64)."""
    return hash_bits(values + np.uint64(key))


def permute(positions: NDArray[np.int64], count: int, key: int) -> NDArray[np.int64]:
    """The items that stand at these positions when `count` items are shuffled by this key."""
    half = max((max(count - 1, 1).bit_length() + 1) // 2, 1)
    round_keys = [key_of(key, turn) for turn in range(ROUNDS)]
    items = _feistel(positions.astype(np.uint64), half, round_keys)
    outside = items >= count
    while outside.any():
        items[outside] = _feistel(items[outside], half, round_keys)
        outside = items >= count
    return items.astype(np.int64)


def _feistel(x: Words, half: int, keys: list[int]) -> Words:
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = x >> shift, x & mask
    for key in keys:
        left, right = right, left ^ (mix(right, key) & mask)
    return (left << shift) | right
