"""The small world that the stories are set in: its people, animals, places and things (story_world.toml), and their
grammar."""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass
from pathlib import Path

WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GIRLS, BOYS, COLOURS, COATS, SIZES, TOYS, ANIMALS, ROOMS, PLACES, HIDING, FOODS, FEELINGS, LOW, TIMES, NUMBERS = (
    tuple(WORDS[name]) for name in (
        "girls", "boys", "colours", "coats", "sizes", "toys", "animals", "rooms", "places", "hiding", "foods",
        "feelings", "low", "times", "numbers"))
IRREGULAR = WORDS["irregular"]
TO_BE = {False: "was", True: "were"}


@dataclass(frozen=True)
class Person:
    """Someone with a name, and the words that stand for it."""

    name: str
    girl: bool

    @property
    def he(self) -> str:
        return "she" if self.girl else "he"

    @property
    def him(self) -> str:
        return "her" if self.girl else "him"

    @property
    def his(self) -> str:
        return "her" if self.girl else "his"

    @property
    def child(self) -> str:
        return "girl" if self.girl else "boy"

    def __str__(self) -> str:
        return self.name


class World:
    """Draws who and what a story is about, never the same one twice in a story."""

    def __init__(self, chance: random.Random):
        self.chance = chance
        self.used: set[str] = set()

    def pick(self, words: tuple[str, ...]) -> str:
        """A word that this story has not used yet."""
        word = self.chance.choice([word for word in words if word not in self.used])
        self.used.add(word)
        return word

    def person(self, girl: bool | None = None) -> Person:
        girl = self.chance.random() < 0.5 if girl is None else girl
        return Person(self.pick(GIRLS if girl else BOYS), girl)

    def pair(self) -> tuple[Person, Person]:
        """A girl and a boy, in either order, so that `she` and `he` say which."""
        girl = self.chance.random() < 0.5
        return self.person(girl), self.person(not girl)

    def one_of(self, *sentences: str) -> str:
        return self.chance.choice(sentences)

    def maybe(self, *sentences: str) -> list[str]:
        """One of these, half of the time."""
        return [self.chance.choice(sentences)] if self.chance.random() < 0.5 else []


def a(words: str) -> str:
    """`an old hat`, `a red hat`."""
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def many(noun: str) -> str:
    """The plural."""
    return IRREGULAR.get(noun, f"{noun}s")


def count(number: int, noun: str) -> str:
    return f"{NUMBERS[number]} {noun if number == 1 else many(noun)}"


def was(plural: bool) -> str:
    return TO_BE[plural]


def up(sentence: str) -> str:
    """A sentence with its capital."""
    return sentence[0].upper() + sentence[1:]
