"""The small world that the stories are set in: its people, animals, places and things, and their grammar."""

from __future__ import annotations

import random
from dataclasses import dataclass

GIRLS = ("Mia", "Anna", "Lily", "Ruth", "Clara", "Nora", "Eva", "Ida", "Sara", "Emma", "Rosa", "Zoe")
BOYS = ("Tom", "Ben", "Max", "Leo", "Sam", "Jack", "Paul", "Noah", "Finn", "Hugo", "Otto", "Adam")
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "orange", "grey", "pink")
COATS = ("black", "white", "brown", "grey")             # the colours animals have
SIZES = ("small", "big", "old", "new", "pretty", "heavy", "light", "round")
TOYS = ("ball", "kite", "drum", "boat", "doll", "book", "hat", "bell", "mirror", "flute", "scarf", "ring", "whistle",
        "basket", "cup", "map")
ANIMALS = ("dog", "cat", "horse", "goat", "duck", "rabbit", "donkey", "hen", "cow", "pig")
ROOMS = ("kitchen", "pantry", "attic", "cellar", "barn", "shed", "hall", "workshop")
PLACES = ("forest", "market", "school", "garden", "mill", "castle", "harbour", "village", "meadow", "valley")
HIDING = ("behind the door", "in the cupboard", "on the shelf", "under the table", "in a box", "behind the curtain",
          "under the bench", "in a bag", "behind the barrel", "under the stairs")
FOODS = ("apple", "pear", "cake", "orange", "egg", "sandwich", "plum", "carrot", "onion", "biscuit")
FEELINGS = ("happy", "proud", "glad", "cheerful")
LOW = ("sad", "worried", "upset", "sorry")
TIMES = ("One morning", "One day", "One evening", "In the spring", "In the summer", "On a cold day", "On Sunday",
         "After school", "Last week", "Before breakfast")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six")

IRREGULAR = {"sandwich": "sandwiches", "scarf": "scarves"}
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
