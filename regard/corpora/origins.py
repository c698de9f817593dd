"""Origins: a few words in a row out of a line of another corpus, and which corpus that is.

    gists       lost the green cup near the
    english     old doctor is looking for

Some corpora have words in common, so that a label often hangs on the order of the words, or on one of them. The labels
are not equally frequent. A hash of the words decides which part they belong to, so that no two parts share a text.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any, NamedTuple

from regard.corpora import gists, phrasebook, sally, stories
from regard.errors import SettingError, did_you_mean

PARTS = ("train", "valid", "test")
SHORTEST, LONGEST = 3, 6         # words of a text
LINES = 1000                     # of a corpus that are generated at a time
TRIES = 10                       # stretches of a line, of which the first is taken that is new and of the part
HELD_OUT = 20                    # one text in so many is of `valid`, and one of `test`


Draw = Callable[[int, int], Iterator[Any]]

# How often each comes, who draws its lines, and under which name a line stands in what is drawn.
LABELS: dict[str, tuple[int, Draw, str]] = {
    "stories": (6, stories.generate, ""), "sally": (3, sally.generate, "text"), "gists": (4, gists.pairs, "target"),
    "english": (4, phrasebook.pairs, "target"), "french": (3, phrasebook.pairs, "source")}


class LabelledText(NamedTuple):
    """A text and its label; where each word has one, as many as words, with spaces between them."""

    label: str
    text: str


def texts(number: int, seed: int = 0, part: str = "train") -> Iterator[LabelledText]:
    """Yield so many texts of a part with their labels, the same for the same seed."""
    if part not in PARTS:
        raise SettingError(f"origins have no part {part}{did_you_mean(part, PARTS)}")
    return islice(_endless(seed, part), number)


def _endless(seed: int, part: str) -> Iterator[LabelledText]:
    chance = random.Random(f"{seed} {part}")
    lines = {label: _lines(draw, name, seed) for label, (_, draw, name) in LABELS.items()}
    odds = [often for often, *_ in LABELS.values()]
    seen: set[str] = set()
    while True:
        label = chance.choices([*LABELS], odds)[0]
        words = next(lines[label]).split()
        for _ in range(TRIES):
            text = _cut(words, chance)
            if text not in seen and part_of(text) == part:
                seen.add(text)
                yield LabelledText(label, text)
                break


def _cut(words: list[str], chance: random.Random) -> str:
    length = min(len(words), chance.randint(SHORTEST, LONGEST))
    first = chance.randint(0, len(words) - length)
    return " ".join(words[first:first + length])


def _lines(draw: Draw, name: str, seed: int) -> Iterator[str]:
    """Yield lines without end, some thousand at a time, each with a seed of its own."""
    for turn in count():
        for drawn in draw(LINES, LINES * seed + turn):
            yield getattr(drawn, name) if name else drawn


def part_of(text: str) -> str:
    """Return the part that a text belongs to, by a hash of its words."""
    return {0: "valid", 1: "test"}.get(zlib.crc32(text.encode()) % HELD_OUT, "train")
