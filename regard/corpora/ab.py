"""A and B: the smallest language with a memory, the running example of the lectures.

    A A B A -> B
    A A A A -> A

A line is a row of A's and B's, an arrow, and the answer: A if all symbols are A, B if any is B. A model that forgets
the first symbol cannot know the last. Rows have from 4 symbols, as in the lectures, to 23. The arrow ends the row:
without it nobody could tell the answer from one more symbol. It also is the token that asks, whatever symbol was read
last.

Every part has as many lines of one answer as of the other, at every length. A row with a B belongs to one part only,
whatever the seeds: no such row of `valid` or `test` is in `train`. A hash of the row decides which part. Rows with a
single B are the hardest and few, as many as places; they are dealt out in the order of their hashes, so that every part
has some of every length. Only one row of each length has no B, so every part has it, and it is never new. The measure
loses nothing by it: the rule is to tell this row from all others, and the others are new. Short rows are few (15 rows
of four symbols have a B), so a part repeats them.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Sequence
from functools import cache

from regard.errors import SettingError, did_you_mean

PARTS = ("train", "valid", "test")
LENGTHS = range(4, 24)          # symbols before the arrow
SHARES = 7                      # one row with a B in so many is of `valid`, one of `test`
ARROW = "->"
PROMPTS = ("A A B A ->", "A A A A ->", "B A A A A A A A A A A A A A A A ->")


def generate(count: int, seed: int = 0, part: str = "train", lengths: Sequence[int] = LENGTHS) -> Iterator[str]:
    """So many lines of a part. Each length comes with each answer once before any comes again."""
    if part not in PARTS:
        raise SettingError(f"ab has no part {part}{did_you_mean(part, PARTS)}")
    if any(length < LENGTHS[0] for length in lengths):
        raise SettingError(f"ab with a row of {min(lengths)} symbols: too few such rows have a B to hold some out; "
                           f"give lengths from {LENGTHS[0]} on")
    return _lines(count, random.Random(seed), part, lengths)


def _lines(count: int, chance: random.Random, part: str, lengths: Sequence[int]) -> Iterator[str]:
    kinds = [(length, last) for length in lengths for last in "AB"]
    for at in range(count):
        if at % len(kinds) == 0:
            chance.shuffle(kinds)
        length, last = kinds[at % len(kinds)]
        symbols = ["A"] * length if last == "A" else _with_b(chance, length, part)
        yield " ".join([*symbols, ARROW, last])


def _with_b(chance: random.Random, length: int, part: str) -> list[str]:
    """A row of this part with a B in it. Half have a single one, which is the hardest to keep in mind."""
    single = chance.random() < 0.5
    while True:
        places = chance.sample(range(length), 1 if single else chance.randint(2, length))
        symbols = ["B" if at in places else "A" for at in range(length)]
        if part_of(symbols) == part:
            return symbols


def part_of(symbols: Sequence[str]) -> str:
    """The only part that a row with a B may come in."""
    row = "".join(symbols)
    share = _singles(len(row))[row] if row.count("B") == 1 else zlib.crc32(row.encode())
    return {SHARES - 2: "valid", SHARES - 1: "test"}.get(share % SHARES, "train")


@cache
def _singles(length: int) -> dict[str, int]:
    """The rows of this length with a single B, each with a number; four rows have one of `valid` and one of `test`."""
    rows = ["A" * at + "B" + "A" * (length - at - 1) for at in range(length)]
    rows.sort(key=lambda row: zlib.crc32(row.encode()))
    return {row: SHARES - 2 + number for number, row in enumerate(rows)}
