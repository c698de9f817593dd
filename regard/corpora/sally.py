"""Sally: stories that greet someone at the end by the name that stands at the beginning.

    Sally looked around and saw a field. It was nice. ... She went here. Someone said "Hi, Sally"

The lectures' story with a blank. Only the first word tells the name in the blank: no sentence between repeats it, and
nobody else is named. `she` or `he` leaves half of the names, 24. The distance is the number of `word` tokens from the
name to its return, and it can be chosen. A model that forgets over long strings fails from some distance on.

A hash of the story decides its part, so that no story of `valid` or `test` is in `train`, whatever the seeds. All
names, sentences and distances are in all parts.
"""

from __future__ import annotations

import random
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from regard.corpora.word_split import split_words
from regard.errors import SettingError, did_you_mean

PARTS = ("train", "valid", "test")
HELD_OUT = 10                        # one story in so many is of `valid`, one of `test`
DISTANCES = (20, 120)                # the shortest and the longest, in `word` tokens

WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GIRLS, BOYS, SIGHTS, OPENINGS, ENDINGS, BETWEEN, PROMPTS = (
    tuple(WORDS[name]) for name in ("girls", "boys", "sights", "openings", "endings", "between", "prompts"))
SHORTEST = 3                         # tokens of a sentence between

split = split_words


@dataclass(frozen=True)
class Story:
    """A story. The blank is its last word; name, answer and distance follow from the text."""

    text: str

    @property
    def name(self) -> str:
        """The word that fills the blank."""
        return self.text.split(" ", 1)[0]

    @property
    def answer(self) -> int:
        """The character at which the name comes back."""
        return self.text.rindex(self.name)

    @property
    def prompt(self) -> str:
        """The story up to its blank."""
        return self.text[:self.answer].rstrip(" ")

    @cached_property
    def distance(self) -> int:
        """`word` tokens from the name to its return; it also is the place of the answer, as the name has place 0."""
        return len(split(self.prompt))


def generate(
    count: int, seed: int = 0, distances: tuple[int, int] = DISTANCES, part: str = "train"
) -> Iterator[Story]:
    """So many stories of a part, over distances from the first to the last, each as likely as another."""
    if part not in PARTS:
        raise SettingError(f"sally has no part {part}{did_you_mean(part, PARTS)}")
    if not DISTANCES[0] <= distances[0] <= distances[1]:
        raise SettingError(f"sally over distances from {distances[0]} to {distances[1]}: give the shorter first, and "
                           f"none below {DISTANCES[0]}")
    return _stories(count, random.Random(seed), distances, part)


def _stories(count: int, chance: random.Random, distances: tuple[int, int], part: str) -> Iterator[Story]:
    while count:
        story = draw(chance, chance.randint(*distances))
        if part_of(story) == part:
            count -= 1
            yield story


def part_of(story: Story) -> str:
    """The only part that a story may come in."""
    share = zlib.crc32(story.text.encode()) % HELD_OUT
    return {HELD_OUT - 2: "valid", HELD_OUT - 1: "test"}.get(share, "train")


def draw(chance: random.Random, distance: int) -> Story:
    """Any story of exactly this distance."""
    girl = chance.random() < 0.5
    name = chance.choice(GIRLS if girl else BOYS)
    opening, ending = chance.choice(OPENINGS), chance.choice(ENDINGS)
    left = distance - tokens(opening.format(name=name, sight=SIGHTS[0])) - tokens(ending.partition("{name}")[0])
    sentences = [opening, *_between(chance, left), ending]
    she = "she" if girl else "he"
    return Story(" ".join(sentences).format(name=name, sight=chance.choice(SIGHTS), she=she, She=she.capitalize()))


def _between(chance: random.Random, left: int) -> Iterator[str]:
    """Sentences of so many tokens in all: the last fills exactly what is left."""
    while left:
        sentence = chance.choice(BETWEEN)
        rest = left - tokens(sentence)
        if rest == 0 or rest >= SHORTEST:
            yield sentence
            left = rest


@cache
def tokens(sentence: str) -> int:
    """The number of `word` tokens of a sentence, with anything in the place of its braces."""
    return len(split(sentence.replace("{", "").replace("}", "")))
