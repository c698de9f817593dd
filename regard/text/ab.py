"""A and B: the smallest language with a memory.

A line is a row of A's and B's, all of one length. Its last symbol follows from the others: A if all of them are A,
and B if any of them is B. A model that forgets the first symbol cannot know the last.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

LENGTH = 16


def generate(count: int, seed: int = 0, length: int = LENGTH) -> Iterator[str]:
    """Lines of `length` symbols, the last decided by the rule."""
    chance = random.Random(seed)
    for _ in range(count):
        yield " ".join(_line(chance, length - 1))


def _line(chance: random.Random, free: int) -> list[str]:
    """Half of the lines are all A: were every symbol a coin toss, long ones of that kind would never be met."""
    symbols = ["A"] * free
    if chance.random() < 0.5:
        for _ in range(chance.randint(1, max(1, free // 3))):
            symbols[chance.randrange(free)] = "B"
    return [*symbols, answer(symbols)]


def answer(symbols: list[str]) -> str:
    """What must follow these symbols at the end of a line."""
    return "B" if "B" in symbols else "A"
