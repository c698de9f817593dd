"""The small world that the stories are set in: its people, animals, places and things (story_world.toml), their
grammar, and how a story is told of them (stories.toml says how sentences are written)."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GIRLS, BOYS, COLOURS, COATS, SIZES, TOYS, ANIMALS, ROOMS, PLACES, HIDING, FOODS, FEELINGS, LOW, TIMES, NUMBERS = (
    tuple(WORDS[name]) for name in (
        "girls", "boys", "colours", "coats", "sizes", "toys", "animals", "rooms", "places", "hiding", "foods",
        "feelings", "low", "times", "numbers"))
IRREGULAR = WORDS["irregular"]
KINDS = {name.upper(): tuple(words) for name, words in WORDS.items() if name != "irregular"}
KINDS["WHEN"] = tuple(time for time in TIMES if time != "After school")      # where the school is a place
KINDS["LOOKS"] = SIZES[:3]
SLOT = re.compile(r"\{(?:(\w+): )?([^}]*)\}")


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

    def tell(self, lines: Sequence[Any], names: Mapping[str, Any]) -> list[str]:
        """The sentences of these lines (stories.toml), with what the plot drew in the place of its names."""
        sentences: list[str] = []
        for line in lines:
            if isinstance(line, list):
                parts = [self.tell(part, names) for part in line]
                self.chance.shuffle(parts)
                sentences += [sentence for part in parts for sentence in part]
            elif line[0] == "*":
                more = names[line[1:]]
                sentences += more(self) if callable(more) else more
            elif line[0] == "$":
                sentences.append(self.fill(self.one_of(*names[line[1:]]), names))
            else:
                choices = [self.fill(each, names) for each in split_choices(line)]
                if choices[1:] and line[0] != "?":
                    choices = [self.one_of(*choices)]
                sentences += self.maybe(*choices) if line[0] == "?" else choices
        return sentences

    def fill(self, sentence: str, names: Mapping[str, Any]) -> str:
        """The sentence with its slots filled from left to right; a kind of word in capitals is drawn there."""
        first, *slots = split_slots(sentence)
        text = first
        for form, words, after in zip(slots[::3], slots[1::3], slots[2::3], strict=True):
            values = [self.value(word, names) for word in words.split()]
            text += (self.one_of(*map(str, values)) if form == "either" else FORMS[form](*values)) + after
        return text

    def value(self, word: str, names: Mapping[str, Any]) -> Any:
        if word in names:
            return names[word]
        if word in KINDS:
            return self.pick(KINDS[word])
        name, _, form = word.partition(".")
        return self.person() if name == "PERSON" else getattr(names[name], form)


@cache
def split_choices(line: str) -> list[str]:
    return re.split(r"\s*\|\s*", line.removeprefix("? "))


@cache
def split_slots(sentence: str) -> list[str]:
    """The text before the first slot; then of each slot its form, its names, and the text after it."""
    return SLOT.split(sentence)


def a(*words: object) -> str:
    """`an old hat`, `a red hat`."""
    text = " ".join(map(str, words))
    return f"an {text}" if text[0] in "aeiou" else f"a {text}"


def an(*words: object) -> str:
    """`a [red] [kite]`, `an [egg]`: key words of a gist with their article."""
    return " ".join([a(words[0]).split()[0], *(f"[{word}]" for word in words)])


def many(noun: str) -> str:
    """The plural."""
    return IRREGULAR.get(noun, f"{noun}s")


def count(number: int, noun: str) -> str:
    return f"{NUMBERS[number]} {noun if number == 1 else many(noun)}"


def was(plural: bool) -> str:
    return "were" if plural else "was"


def up(sentence: str) -> str:
    """A sentence with its capital."""
    return sentence[0].upper() + sentence[1:]


FORMS: dict[str | None, Callable[..., str]] = {
    None: lambda *words: " ".join(map(str, words)), "a": a, "an": an, "many": many, "count": count, "was": was,
    "up": up}
