"""How good summaries are: ROUGE-1, ROUGE-2 and ROUGE-L with their intervals, the lead baseline, and a paired test.

Each text is counted by `rouge`. Scores are means over the texts, from 0 to 100, and the bootstrap draws texts: both are
what papers report. The signature says what they depend on: which words, stemming, how many references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from regard.data.reading import sentences as cut
from regard.errors import DataError, SettingError
from regard.metrics.intervals import TEXTS, over_sentences
from regard.metrics.resampling import DRAWN, Interval, resampled
from regard.metrics.rouge import Cutter, Shares, cutter, rouge_l, rouge_lsum, rouge_n
from regard.metrics.translation import SEED, Difference

Lines = Sequence[str]
References = Sequence[str] | Sequence[Sequence[str]]       # one summary each, or several such lists

KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


@dataclass(frozen=True)
class Rouge:
    """One kind of ROUGE, of many texts: means, in percent; the 95% interval is that of F."""

    f: float
    precision: float
    recall: float
    interval: Interval | None = None


@dataclass(frozen=True)
class Summary:
    """How near summaries come to their references."""

    rouge1: Rouge
    rouge2: Rouge
    rougeL: Rouge
    exact_match: float                                     # the share of texts that equal a reference
    sentences: int                                         # texts
    signature: str                                         # scores may be compared where these agree
    rougeLsum: Rouge | None = None                         # where a text has several lines

    def as_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for name in (*KINDS, *(["rougeLsum"] if self.rougeLsum else [])):
            score: Rouge = getattr(self, name)
            told |= {name: score.f, f"{name}_precision": score.precision, f"{name}_recall": score.recall}
            if score.interval:
                told[f"{name}_interval"] = list(score.interval)
        return told | {"exact_match": self.exact_match, "sentences": self.sentences, "signature": self.signature}

    def __str__(self) -> str:
        spoken = ", ".join(f"{KINDS[name]} {score.f:.2f}{_spoken(score.interval)}" for name, score in
                           zip(KINDS, (self.rouge1, self.rouge2, self.rougeL), strict=True))
        return f"{spoken}, exact match {self.exact_match:.1%} of {self.sentences:,}"


@dataclass(frozen=True)
class Paired:
    """Two systems on the same texts."""

    rouge1: Difference
    rouge2: Difference
    rougeL: Difference
    sentences: int
    signature: str
    names: tuple[str, str] = ("A", "B")

    @property
    def verdict(self) -> str:
        better: dict[int | None, list[str]] = {}
        for name, title in KINDS.items():
            better.setdefault(getattr(self, name).winner, []).append(title)
        unsure = better.pop(None, [])
        if not better:
            return "no difference that this test set can show"
        if len(better) == 1 and not unsure:
            return f"{self.names[cast(int, next(iter(better)))]} is better"
        said = [f"{self.names[cast(int, winner)]} is better in {' and '.join(titles)}"
                for winner, titles in better.items()]
        return "; ".join(said + ([f"in {' and '.join(unsure)} this test set shows no difference"] if unsure else []))

    def as_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self, name).as_dict() for name in KINDS}, "sentences": self.sentences,
                "names": list(self.names), "signature": self.signature, "verdict": self.verdict}


# ------------------------------------------------------------------------------------------------- scores


def measure(
    hypotheses: Lines, references: References, *, words: str = "any", stem: bool = False, intervals: bool = True,
    samples: int = 1000, seed: int = SEED,
) -> Summary:
    """ROUGE and exact match. Several references: a list for each; of each kind the best by F counts. The intervals are
    from `samples` bootstrap samples of the texts."""
    several = _checked(hypotheses, references)
    shares = _all_shares(hypotheses, several, cutter(words, stem))
    drawn = None
    if intervals:
        drawn = resampled(shares[..., 0], _enough("samples", samples), seed) / len(shares)                 # (R, kinds)
    found = []
    for kind in range(shares.shape[1]):
        f, precision, recall = (float(shares[:, kind, part].mean()) for part in range(3))
        found.append(Rouge(f, precision, recall, over_sentences(drawn[:, kind]) if drawn is not None else None))
    right = sum(any(line.strip() == other.strip() for other in others)
                for line, *others in zip(hypotheses, *several, strict=True))
    return Summary(found[0], found[1], found[2], right / len(hypotheses), len(hypotheses),
                   _signature(words, stem, several), found[3] if len(found) > 3 else None)


def paired(
    a: Lines, b: Lines, references: References, *, words: str = "any", stem: bool = False, samples: int = 1000,
    trials: int = 10_000, seed: int = SEED, names: tuple[str, str] = ("A", "B"),
) -> Paired:
    """Is one of two systems better? The interval of the difference is from `samples` bootstrap samples of texts, with
    both summaries of each; its p-value from `trials` random exchanges, as for translations."""
    several = _checked(a, references)
    _checked(b, references)
    cut_words = cutter(words, stem)
    of_a, of_b = (_all_shares(each, several, cut_words)[:, :3, 0] for each in (a, b))           # (S, 3)
    drawn = resampled(of_b - of_a, _enough("samples", samples), seed) / len(of_a)               # (R, 3)
    p = exchanged(of_b - of_a, _enough("trials", trials), seed)
    found = [Difference(float(of_a[:, kind].mean()), float(of_b[:, kind].mean()), over_sentences(drawn[:, kind]),
                        p[kind]) for kind in range(3)]
    return Paired(found[0], found[1], found[2], len(a), _signature(words, stem, several), names)


def exchanged(differences: NDArray[np.float64], trials: int, seed: int) -> list[float]:
    """Of each column of (S, kinds), how often its mean is as far from zero when a coin decides, for each text, which
    summary is whose. What was seen is one way for the coins to fall."""
    rng = np.random.default_rng(seed)
    total = differences.sum(0)
    as_large = np.ones(len(total))
    at_once = max(1, DRAWN // len(differences))
    for start in range(0, trials, at_once):
        coins = rng.integers(2, size=(min(at_once, trials - start), len(differences)), dtype=bool)
        moved = total - 2 * (coins.astype(np.float64) @ differences)                            # (R, kinds)
        as_large += (np.abs(moved) >= np.abs(total) - 1e-9).sum(0)
    return (as_large / (trials + 1)).tolist()


def lead(documents: Lines, sentences: int = 1, lang: str = "") -> list[str]:
    """The first sentences of each document: a summary that costs nothing, and in news a hard one to beat."""
    if sentences < 1:
        raise SettingError(f"sentences = {sentences}: a lead has at least 1")
    found = []
    for document in documents:
        pieces = [piece for piece in cut.split(document, lang) if piece.text]
        found.append(cut.join(pieces[:sentences]).strip())
    return found


def _signature(words: str, stem: bool, several: Sequence[Lines]) -> str:
    return f"words:{words}|stem:{'porter' if stem else 'no'}|refs:{len(several)}"


def _all_shares(hypotheses: Lines, several: list[list[str]], cut_words: Cutter) -> NDArray[np.float64]:
    """(S, kinds, 3): F, precision and recall in percent, of the three kinds, and of Lsum where a text has lines."""
    lines = any("\n" in text for texts in (hypotheses, *several) for text in texts)
    rows = []
    for text, *others in zip(hypotheses, *several, strict=True):
        each = [_shares(text, other, cut_words, lines) for other in others]
        rows.append([max(kind, key=lambda shares: shares[0]) for kind in zip(*each, strict=True)])
    return 100 * np.array(rows, dtype=np.float64)


def _shares(text: str, reference: str, cut_words: Cutter, lines: bool) -> list[Shares]:
    said, wanted = cut_words(text), cut_words(reference)
    found = [rouge_n(said, wanted, 1), rouge_n(said, wanted, 2), rouge_l(said, wanted)]
    if lines:
        found.append(rouge_lsum(*([cut_words(line) for line in each.split("\n")] for each in (text, reference))))
    return found


# ------------------------------------------------------------------------------------------ what is given


def _spoken(between: Interval | None) -> str:
    return f" ({between[0]:.2f} to {between[1]:.2f}, {TEXTS})" if between else ""


def _checked(hypotheses: Lines, references: References) -> list[list[str]]:
    """The references as lists, one for each set of them."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise DataError("summaries and references are lists of texts: one string was given")
    if not hypotheses:
        raise DataError("nothing to score: there are no summaries")
    single = not references or any(isinstance(text, str) for text in references)
    several = [list(cast(Lines, texts)) for texts in ([references] if single else references)]
    for number, texts in enumerate([list(hypotheses), *several]):
        which = "summaries" if not number else "references" if len(several) == 1 else f"references in set {number}"
        if len(texts) != len(hypotheses):
            raise DataError(f"{len(hypotheses):,} summaries and {len(texts):,} {which}: there must be one for each")
        for place, text in enumerate(texts, 1):
            if not isinstance(text, str):
                raise DataError(f"number {place:,} of the {which} is no text: {text!r}")
    return several


def _enough(name: str, number: int) -> int:
    if number < 40:
        raise SettingError(f"{name} = {number}: a level of 95% takes at least 40")
    return number
