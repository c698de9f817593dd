"""The quality of summaries: ROUGE-1, ROUGE-2 and ROUGE-L with their intervals, the lead baseline, and a paired test.

Each text is counted by `rouge`. Scores are means over the texts, from 0 to 100, and the bootstrap draws texts: both are
what papers report. The signature says what they depend on: which words, stemming, how many references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.reading import sentences as cut
from regard.errors import SettingError
from regard.metrics.intervals import TEXTS, over_sentences
from regard.metrics.paired import (
    SEED,
    Lines,
    PairedComparison,
    References,
    check_enough,
    check_texts,
    compare_counts,
    share_equal,
    spell_interval,
)
from regard.metrics.resampling import Counts, Interval, Scores, resample
from regard.metrics.rouge import Cutter, Shares, cutter, rouge_l, rouge_lsum, rouge_n

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
    """The scores of summaries against their references."""

    rouge1: Rouge
    rouge2: Rouge
    rougeL: Rouge
    exact_match: float                                     # the share of texts that equal a reference
    sentences: int                                         # texts
    signature: str                                         # scores may be compared where these agree
    rougeLsum: Rouge | None = None                         # where a text has several lines

    def as_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in (*KINDS, *(["rougeLsum"] if self.rougeLsum else [])):
            score: Rouge = getattr(self, name)
            values |= {name: score.f, f"{name}_precision": score.precision, f"{name}_recall": score.recall}
            if score.interval:
                values[f"{name}_interval"] = list(score.interval)
        return values | {"exact_match": self.exact_match, "sentences": self.sentences, "signature": self.signature}

    def __str__(self) -> str:
        shown = ", ".join(f"{KINDS[name]} {score.f:.2f}{spell_interval(score.interval, TEXTS)}" for name, score in
                          zip(KINDS, (self.rouge1, self.rouge2, self.rougeL), strict=True))
        return f"{shown}, exact match {self.exact_match:.1%} of {self.sentences:,}"


# ------------------------------------------------------------------------------------------------- scores


def measure(
    hypotheses: Lines, references: References, *, words: str = "any", stem: bool = False, intervals: bool = True,
    samples: int = 1000, seed: int = SEED,
) -> Summary:
    """ROUGE and exact match. Several references: a list for each; of each kind the best by F counts. The intervals are
    from `samples` bootstrap samples of the texts."""
    several = _check(hypotheses, references)
    shares = _all_shares(hypotheses, several, cutter(words, stem))
    drawn = None
    if intervals:
        drawn = resample(shares[..., 0], check_enough("samples", samples), seed) / len(shares)        # (R, kinds)
    scores = []
    for kind in range(shares.shape[1]):
        f, precision, recall = (float(shares[:, kind, part].mean()) for part in range(3))
        scores.append(Rouge(f, precision, recall, over_sentences(drawn[:, kind]) if drawn is not None else None))
    return Summary(scores[0], scores[1], scores[2], share_equal(hypotheses, several), len(hypotheses),
                   _signature(words, stem, several), scores[3] if len(scores) > 3 else None)


def paired(
    a: Lines, b: Lines, references: References, *, words: str = "any", stem: bool = False, samples: int = 1000,
    trials: int = 10_000, seed: int = SEED, names: tuple[str, str] = ("A", "B"),
) -> PairedComparison:
    """The comparison of two systems by `compare_counts`: their scores, intervals of the differences, and p-values."""
    several = _check(a, references)
    _check(b, references)
    cut_words = cutter(words, stem)
    of_a, of_b = (_all_shares(each, several, cut_words)[:, :3, 0] for each in (a, b))           # (S, 3)

    def average(totals: Counts) -> Scores:
        return np.moveaxis(totals / len(of_a), -1, 0)

    seen = [(float(of_a[:, kind].mean()), float(of_b[:, kind].mean())) for kind in range(3)]
    differences = compare_counts(of_a, of_b, average, seen, samples, trials, seed)
    return PairedComparison(dict(zip(KINDS, differences, strict=True)), KINDS, len(a),
                            {"signature": _signature(words, stem, several)}, names)


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


def _check(hypotheses: Lines, references: References) -> list[list[str]]:
    return check_texts(hypotheses, references, "summaries", "texts")
