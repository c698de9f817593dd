"""The order that is never written down, beside its definition in whole numbers of Python.

A run that goes on draws the batches that it would have drawn: another order, as random as this one, would be a fault.
"""

import numpy as np
import pytest

from regard.data.batching.shuffle import ROUNDS, key_of, mix, permute

WORD = 2**64


def scrambled(z):
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014, figure 17)."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def key_by_definition(*parts):
    key = 0
    for part in parts:
        key = scrambled((key + part * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % WORD)
    return key


def item_by_definition(position, count, key):
    """A Feistel network on 2h bits, the fewest that hold every item; outside of them, once more."""
    half = 1
    while 4**half < count:
        half += 1
    item = position
    while True:
        left, right = divmod(item, 2**half)
        for turn in range(6):
            left, right = right, left ^ scrambled((right + key_by_definition(key, turn)) % WORD) % 2**half
        item = left * 2**half + right
        if item < count:
            return item


def test_known_numbers():
    """Written down once: a change of these changes what every run reads, and in which order."""
    assert ROUNDS == 6 and key_of() == 0
    assert [key_of(1), key_of(1, 2), key_of(2, 1)] == [0x5cc60547776902ba, 0xb6ddda83e09b22d9, 0x64437f9b6cb51292]
    assert permute(np.arange(10), 10, 7).tolist() == [8, 1, 9, 7, 6, 0, 5, 3, 4, 2]


@pytest.mark.parametrize("parts", [(0,), (1,), (7, 3, 2), (3, 7, 2), (2**64 - 1, 5), (2**40, 0, 1)])
def test_a_key_is_its_definition(parts):
    assert key_of(*parts) == key_by_definition(*parts) and 0 <= key_of(*parts) < WORD


def test_words_are_mixed_by_the_finaliser():
    words = [0, 1, 2**63, 2**64 - 1, 123456789]
    found = mix(np.array(words, np.uint64), 2**64 - 5)
    assert found.tolist() == [scrambled((word + 2**64 - 5) % WORD) for word in words]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 100])
def test_every_item_stands_at_one_position_and_it_is_that_of_the_definition(count):
    found = permute(np.arange(count), count, 11).tolist()
    assert sorted(found) == list(range(count))
    assert found == [item_by_definition(position, count, 11) for position in range(count)]
