"""Language detection, among the languages of the translators that are served.

Each language has a small model of its words. It is made of the vocabularies of translators whose two sides have one
each (frequent words count more), and of a few dozen of the commonest words of some languages (languages.toml). An
unknown word is judged by its characters. One more model, the stranger, knows no language: any letter is as likely as
any other. The confidence is the posterior probability with equal priors. The evidence counts at a part of its weight:
the words of a text are far from independent, and a model that took them so would always be certain.

It cannot detect a language that no translator reads or writes: such a text has the confidence of the nearest one,
lowered by the stranger.
"""

from __future__ import annotations

import math
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
NAMES: dict[str, str] = _TABLES["names"]
COMMON: dict[str, str] = _TABLES["words"]      # from frequent to rare

FLOOR = 0.02                   # times 1 / LETTERS: the least probability of a character
WEIGHT = 0.3                   # of the evidence
LETTERS = 60                   # equally likely ones, to the stranger
LONGEST, LONGEST_WORD = 1000, 40   # characters of a text and of a word that count: more say nothing new


class WordModel:
    """P(word): half by how frequent it is among the known, half by its characters, each given the two before it."""

    def __init__(self, known: Mapping[str, float]):
        self.shares: dict[str, float] = {}
        for word, weight in known.items():
            for part in plain(word).split():
                self.shares[part] = self.shares.get(part, 0.0) + weight
        self.total = sum(self.shares.values())
        self.counts: tuple[dict[str, float], ...] = ({}, {}, {})
        self.totals: tuple[dict[str, float], ...] = ({}, {}, {})
        for word, weight in self.shares.items():
            self._count(f" {word} ", weight)

    def _count(self, text: str, weight: float) -> None:
        for place in range(1, len(text)):
            for order in range(min(3, place + 1)):
                gram, before = text[place - order:place + 1], text[place - order:place]
                self.counts[order][gram] = self.counts[order].get(gram, 0.0) + weight
                self.totals[order][before] = self.totals[order].get(before, 0.0) + weight

    def log_prob(self, words: Iterable[str]) -> float:
        return sum(math.log(0.5 * self.shares.get(word, 0.0) / self.total + 0.5 * self.spell(f" {word} "))
                   for word in words)

    def spell(self, text: str) -> float:
        """Return P(text | its first character), the product over the others."""
        return math.prod(self.probability(text[max(0, place - 2):place], text[place]) for place in range(1, len(text)))

    def probability(self, before: str, character: str) -> float:
        """Return P(character | before), interpolated over shorter contexts."""
        p = FLOOR / LETTERS
        for order in range(len(before) + 1):
            context = before[len(before) - order:]
            total = self.totals[order].get(context, 0.0)
            trust = total / (total + 0.01 * self.total)
            if total:
                p = (1 - trust) * p + trust * self.counts[order].get(context + character, 0.0) / total
        return max(p, FLOOR / LETTERS)


def plain(text: str) -> str:
    """Return the text in lower case, with letters and apostrophes; anything else is one space."""
    folded = unicodedata.normalize("NFC", text.lower()).replace("’", "'")
    return " ".join("".join(c if c.isalpha() or c == "'" or unicodedata.combining(c) else " " for c in folded).split())


def weighted(words: Iterable[str]) -> dict[str, float]:
    """Return words, given from frequent to rare, with weights: the k-th has about 1 / k."""
    return {word: 1.0 / (10 + rank) for rank, word in enumerate(words) if plain(word)}


class Detector:
    """Detects languages by their codes, from words of each."""

    def __init__(self, words: Mapping[str, Sequence[str]]):
        self.models = {}
        for code in sorted(words):
            known = weighted(words[code])
            for word, weight in weighted(COMMON.get(code, "").split()).items():
                known[word] = known.get(word, 0.0) + weight
            if known:
                self.models[code] = WordModel(known)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return the languages, likeliest first, each with a confidence from 0 to 1; the rest is the stranger's."""
        words = [word[:LONGEST_WORD] for word in plain(text[:LONGEST]).split()]
        if not words:
            return [(code, 0.0) for code in self.models]
        logs = {code: WEIGHT * model.log_prob(words) for code, model in self.models.items()}
        stranger = -WEIGHT * math.log(LETTERS) * sum(len(word) + 1 for word in words)
        top = max([stranger, *logs.values()])
        total = sum(math.exp(value - top) for value in (stranger, *logs.values()))
        confidences = [(code, math.exp(value - top) / total) for code, value in logs.items()]
        return sorted(confidences, key=lambda each: -each[1])
