"""The words of the phrasebook but its verbs: nouns by kind, adjectives, numerals, names, adverbs, times of day.

A noun's kind says what can be done with it (food is eaten, clothes are worn, one goes to places), so that what
the grammar says is sensible. Words whose translation would depend on more than the sentence are left out.
They stand in phrasebook_words.toml; here is how they are inflected.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
ASPIRATED = frozenset(WORDS["aspirated"])               # no elision before these
VOWELS = frozenset("aeiouàâéèêëîïôùûœh")                # a French h is silent, unless the word is ASPIRATED


def _pairs(name: str) -> tuple[tuple[str, str], ...]:
    """Words of both languages, or of two forms, written as `deux:two trois:three`."""
    return tuple((one, other) for one, other in (pair.split(":") for pair in WORDS[name].split()))


def before_vowel(word: str) -> bool:
    """True if le, de, que ... lose their vowel before this word (`y` alone does it, as in n'y)."""
    return (word[0].lower() in VOWELS and word not in ASPIRATED) or word == "y"


def plural(word: str) -> str:
    """The French plural: gâteaux, chevaux, bus."""
    if word[-1] in "sxz":
        return word
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + ("x" if word.endswith("eau") or word == "hibou" else "s")


IRREGULAR_PLURALS = dict(_pairs("plurals"))


def english_plural(word: str) -> str:
    """The English plural: boxes, strawberries, men."""
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "tomato")) else "s")


@dataclass(frozen=True)
class Noun:
    """A noun of both languages. One that is not counted (bread), or that there is one of (kitchen), has no plural."""

    french: tuple[str, str]      # one, and many
    english: tuple[str, str]
    feminine: bool
    kind: str
    counted: bool                # takes `a`; what is not takes `some`
    plural: bool


class Adjective(NamedTuple):
    """Masculine, feminine, and their plurals; before the noun or after it; said of these kinds of nouns, or these
    nouns."""

    forms: tuple[str, str, str, str]
    english: str
    first: bool
    kinds: frozenset[str]
    vowel: str                   # the masculine before a vowel: bel, nouvel, vieil

    def agree(self, feminine: bool, many: bool) -> str:
        return self.forms[feminine + 2 * many]


def _nouns(kind: str) -> tuple[Noun, ...]:
    nouns = []
    counted, single = kind not in WORDS["uncounted"].split(), kind in WORDS["single"].split()
    for row in WORDS["nouns"][kind].split():
        french, gender, english = row.split(":")
        many = counted and not single and gender.islower()          # a capital gender: no plural
        nouns.append(Noun((french, plural(french)), (english, english_plural(english)), gender in "fF", kind,
                          counted, many))
    return tuple(nouns)


NOUNS = {kind: _nouns(kind) for kind in WORDS["nouns"]}
EVERY_NOUN = tuple(noun for nouns in NOUNS.values() for noun in nouns)
NOUN = {noun.french[0]: noun for noun in EVERY_NOUN}
TRADES = tuple(NOUN[word] for word in WORDS["trades"].split())
SURFACES = tuple(NOUN[word] for word in WORDS["surfaces"].split())


def pool(names: str) -> tuple[Noun, ...]:
    """The nouns meant by these kinds and words, in their order."""
    return tuple(noun for name in names.split() for noun in (NOUNS[name] if name in NOUNS else (NOUN[name],)))


FEMININES, BEFORE_VOWELS = dict(_pairs("feminines")), dict(_pairs("before_vowels"))


def _adjectives(name: str, first: bool = False) -> tuple[Adjective, ...]:
    adjectives = []
    for line in WORDS["adjectives"][name].strip().splitlines():
        french, english, *kinds = line.replace("ELDERS", WORDS["elders"]).split()
        feminine = FEMININES.get(french, french if french[-1] == "e" else french + "e")
        forms = (french, feminine, plural(french), plural(feminine))
        adjectives.append(Adjective(forms, english, first, frozenset(kinds), BEFORE_VOWELS.get(french, french)))
    return tuple(adjectives)


FIRST = _adjectives("first", first=True)
COLOURS = _adjectives("colours")
QUALITIES = _adjectives("qualities")
ADJECTIVES = FIRST + COLOURS + QUALITIES
ONLY_SAID = frozenset({"ill"})              # `the ill boy` is not said; `the boy is ill` is


def _said_of(noun: Noun, adjectives: tuple[Adjective, ...]) -> tuple[Adjective, ...]:
    return tuple(each for each in adjectives if noun.kind in each.kinds or noun.french[0] in each.kinds)


SAID_OF = {noun.french[0]: _said_of(noun, ADJECTIVES) for noun in EVERY_NOUN}
COLOURS_OF = {noun.french[0]: _said_of(noun, COLOURS) for noun in EVERY_NOUN}


class Name(NamedTuple):
    """Someone, or somewhere, by name."""

    french: str
    english: str
    feminine: bool = False


NAMES = (*(Name(name, name) for name in WORDS["men"].split()),
         *(Name(name, name, True) for name in WORDS["women"].split()))
CITIES = tuple(Name(*city) for city in _pairs("cities"))
NUMBERS = _pairs("numbers")


class Saying(NamedTuple):
    """Words that go together, with which French one says which English one (as i-j)."""

    french: str
    english: str
    links: str


OFTEN = tuple(Saying(*row) for row in WORDS["often"])
WHEN = {tense: tuple(Saying(*row) for row in rows) for tense, rows in WORDS["when"].items()}
WHEN["imperfect"] = WHEN["past"][:2]
FEELINGS = _pairs("feelings")
