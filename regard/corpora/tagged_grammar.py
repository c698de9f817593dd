"""The grammar of the tagged sentences (tagged_grammar.txt) and the forms of their words (tagged_words.toml).

A sentence is drawn from the rule `line` downwards: each rule takes one of its alternatives, each word class one of its
words. Every word comes with its part of speech, because the grammar put it there.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from regard.corpora.phrasebook_words import english_plural

T = TypeVar("T")
Tagged = tuple[str, str]                             # a word and its tag
Words = dict[str, tuple[Tagged, ...]]                # by class: noun.person_2, verb.move_past
Alternatives = list[tuple[str, ...]]                 # the names of parts; one that is likelier stands there more often

VERB_FORMS = ("base", "third", "past", "done", "ing")
TAG_OF = {"nouns": "NOUN", "verbs": "VERB", "adjectives": "ADJ", "adverbs": "ADV", "names": "PROPN"}
TERMINAL = re.compile(r"(.+)/([A-Z]+)")
CLOSED = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")  # run, chop: the last consonant is doubled before -ed and -ing


# ------------------------------------------------------------------------------------------------ words


def verb_forms(entry: str) -> tuple[str, ...]:
    """The five forms of a verb (VERB_FORMS) from its entry: `walk`, `go:went:gone` or with its -ing."""
    base, *given = entry.split(":")
    stem = base + base[-1] if CLOSED.fullmatch(base) else base
    bare = base[:-1] if base.endswith("e") and not base.endswith("ee") else stem
    to_i = base.endswith("y") and base[-2] not in "aeiou"
    third = base[:-1] + "ies" if to_i else base + ("es" if base.endswith(("ch", "sh", "ss", "x", "o")) else "s")
    past = base[:-1] + "ied" if to_i else bare + "ed" if not base.endswith("ee") else base + "d"
    past, done, ing = (*given, *(past, past, bare + "ing")[len(given):])
    return base, third, past, done, ing


def noun_forms(entry: str) -> tuple[str, str]:
    """One and many, from `dog` or `man:men`."""
    one, _, many = entry.partition(":")
    return one, many or english_plural(one)


def read_words(allowed: Callable[[str], bool]) -> Words:
    """The words of each class, without those whose base form is not allowed."""
    words_of: Words = {}
    for kind, classes in tomllib.loads(_file("tagged_words.toml")).items():
        tag = TAG_OF[kind]
        for name, text in classes.items():
            entries = [entry for entry in text.split() if allowed(entry.partition(":")[0])]
            if kind == "nouns":
                forms = {f"_{number}": [noun_forms(entry)[number - 1] for entry in entries] for number in (1, 2)}
            elif kind == "verbs":
                forms = {f"_{form}": [verb_forms(entry)[at] for entry in entries] for at, form in enumerate(VERB_FORMS)}
            else:
                forms = {"": entries}
            for ending, words in forms.items():
                words_of[f"{kind[:-1]}.{name}{ending}"] = tuple((word, tag) for word in words)
    return words_of


# ------------------------------------------------------------------------------------------------ rules


def read_rules() -> dict[str, Alternatives]:
    """The alternatives of each rule, by its name."""
    text = re.sub(r"(?m)^#.*\n", "", _file("tagged_grammar.txt"))
    rules: dict[str, Alternatives] = {}
    for rule in re.findall(r"(?m)^(\S+ =.*(?:\n  .*)*)", text):
        for name, body in _instances(*rule.split(" =", 1)):
            for alternative in body.split("|"):
                weight, parts = re.fullmatch(r"\s*(?:(\d+): )?(.*?)\s*", alternative, re.DOTALL).groups()  # type: ignore
                rules.setdefault(name, []).extend([tuple(parts.split())] * int(weight or 1))
    return rules


def _instances(name: str, body: str) -> list[tuple[str, str]]:
    """A rule with * as two rules, one with ~ as five, any other as it is."""
    for mark, values in (("*", ("1", "2")), ("~", VERB_FORMS)):
        if mark in name:
            return [(name.replace(mark, value), body.replace(mark, value)) for value in values]
    return [(name, body)]


def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


class Grammar:
    """Draws sentences: lists of words with their tags."""

    def __init__(self, words: Words):
        self.words, self.rules = words, read_rules()
        parts = {part for rule in self.rules.values() for parts in rule for part in parts}
        self.fixed = {part: _word_and_tag(part) for part in parts if part not in words and part not in self.rules}

    def draw(self, chance: random.Random, name: str = "line") -> list[Tagged]:
        """The words of one sentence, drawn from the rule of this name."""
        drawn: list[Tagged] = []
        waiting = [name]                                 # the next part stands last
        while waiting:
            part = waiting.pop()
            if part in self.fixed:
                drawn.append(self.fixed[part])
            elif part in self.words:
                drawn.append(_pick(chance, self.words[part]))
            else:
                waiting.extend(reversed(_pick(chance, self.rules[part])))
        return drawn


def _word_and_tag(part: str) -> Tagged:
    match = TERMINAL.fullmatch(part)
    assert match, f"tagged_grammar.txt: {part} is no rule, no class of words and no word/TAG"
    return match[1], match[2]


def _pick(chance: random.Random, among: Sequence[T]) -> T:
    return among[int(chance.random() * len(among))]
