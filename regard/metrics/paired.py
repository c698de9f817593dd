"""Two systems on the same texts: the difference of each score, its 95% interval, its p-value, and a verdict.

The p-value is that of approximate randomisation (Riezler and Maxwell 2005): how often a difference as large appears
when a coin decides, for each text, which output is whose. S texts · C counts of a text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from regard.errors import DataError, SettingError
from regard.metrics.intervals import over_sentences
from regard.metrics.resampling import Counts, Interval, Score, estimate_chances, resample

Lines = Sequence[str]
References = Sequence[str] | Sequence[Sequence[str]]       # one text each, or several such lists

SEED = 12345                # sacreBLEU's own
LEVEL = 0.05                # below it a difference is called one
LEAST = 40                  # samples, or trials


@dataclass(frozen=True)
class ScoreDifference:
    """One score of two systems: b - a, its 95% interval, and how easily chance gives as much."""

    a: float
    b: float
    interval: Interval
    p: float

    @property
    def difference(self) -> float:
        return self.b - self.a

    @property
    def winner(self) -> int | None:
        """0 or 1, or None where this test set shows no difference."""
        return None if self.p >= LEVEL or self.a == self.b else int(self.b > self.a)

    def as_dict(self) -> dict[str, Any]:
        return {"a": self.a, "b": self.b, "difference": self.difference, "interval": list(self.interval), "p": self.p}


@dataclass(frozen=True)
class PairedComparison:
    """Two systems, score by score. `titles` name the scores to people."""

    scores: Mapping[str, ScoreDifference]
    titles: Mapping[str, str]
    sentences: int
    signatures: Mapping[str, str]
    names: tuple[str, str] = ("A", "B")

    @property
    def verdict(self) -> str:
        """One sentence: which system is better, and in which scores."""
        better: dict[int | None, list[str]] = {}
        for name, score in self.scores.items():
            better.setdefault(score.winner, []).append(self.titles[name])
        unsure = better.pop(None, [])
        if not better:
            return "no difference that this test set can show"
        if len(better) == 1 and not unsure:
            return f"{self.names[cast(int, next(iter(better)))]} is better"
        parts = [f"{self.names[cast(int, winner)]} is better in {' and '.join(titles)}"
                 for winner, titles in better.items()]
        return "; ".join(parts + ([f"in {' and '.join(unsure)} this test set shows no difference"] if unsure else []))

    def as_dict(self) -> dict[str, Any]:
        return {**{name: score.as_dict() for name, score in self.scores.items()}, "sentences": self.sentences,
                "names": list(self.names), **self.signatures, "verdict": self.verdict}


def compare_counts(
    of_a: Counts, of_b: Counts, score: Score, seen: Sequence[tuple[float, float]], samples: int, trials: int, seed: int
) -> list[ScoreDifference]:
    """The difference of each score. `of_a` and `of_b` (S, C) are the counts of each text, and `score` makes scores of
    their sums. `seen` are the scores of both systems. The interval is from `samples` bootstrap samples of texts, the
    p-value from `trials` random exchanges."""
    check_enough("samples", samples)
    check_enough("trials", trials)
    drawn_a, drawn_b = (score(resample(counts, samples, seed)) for counts in (of_a, of_b))       # the same draws
    p = estimate_chances(of_a, of_b, score, [b - a for a, b in seen], trials, seed)
    return [ScoreDifference(*values, over_sentences(y - x), chance)
            for values, x, y, chance in zip(seen, drawn_a, drawn_b, p, strict=True)]


# --------------------------------------------------------------------------------------------- checks


def check_texts(texts: Lines, references: References, kind: str, unit: str) -> list[list[str]]:
    """The references as lists, one for each set of them; as many references as texts."""
    if isinstance(texts, str) or isinstance(references, str):
        raise DataError(f"{kind} and references are lists of {unit}: one string was given")
    if not texts:
        raise DataError(f"nothing to score: there are no {kind}")
    single = not references or any(isinstance(text, str) for text in references)
    several = [list(cast(Lines, each)) for each in ([references] if single else references)]
    for number, each in enumerate([list(texts), *several]):
        which = kind if not number else "references" if len(several) == 1 else f"references in set {number}"
        if len(each) != len(texts):
            raise DataError(f"{len(texts):,} {kind} and {len(each):,} {which}: there must be one for each")
        for place, text in enumerate(each, 1):
            if not isinstance(text, str):
                raise DataError(f"number {place:,} of the {which} is no text: {text!r}")
    return several


def check_enough(name: str, number: int) -> int:
    if number < LEAST:
        raise SettingError(f"{name} = {number}: a level of 95% takes at least {LEAST}")
    return number


def share_equal(texts: Lines, references: Sequence[Lines]) -> float:
    """The share of texts that equal one of their references, space around them aside."""
    equal = sum(any(text.strip() == other.strip() for other in others)
                for text, *others in zip(texts, *references, strict=True))
    return equal / len(texts)


def spell_interval(interval: Interval | None, over: str) -> str:
    return f" ({interval[0]:.2f} to {interval[1]:.2f}, {over})" if interval else ""
