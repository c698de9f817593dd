"""The quality of labels of texts: accuracy and macro-F1, with intervals over texts.

    F1 of a label = 2 right / (given + wanted),  macro-F1 = the mean over the labels that the texts have

N texts · L labels
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.metrics.intervals import over_sentences
from regard.metrics.resampling import Interval, resample

SAMPLES, SEED = 1000, 12345
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class LabelScore:
    """One label of texts or words: `given` to so many, `wanted` by so many, `right` where both agree."""

    right: int
    given: int
    wanted: int

    @property
    def precision(self) -> float:
        return self.right / max(1, self.given)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.wanted)

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, self.given + self.wanted)

    def as_dict(self, unit: str) -> dict[str, float | int]:
        """Return the measures; the number that wanted the label is called by its `unit`: texts or words."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, unit: self.wanted}


@dataclass(frozen=True)
class ClassifierQuality:
    """The measures of one classifier on labelled texts."""

    accuracy: float
    accuracy_interval: Interval                            # 95% over texts
    macro_f1: float
    macro_f1_interval: Interval
    texts: int
    labels: dict[str, LabelScore]

    def as_dict(self) -> dict[str, Any]:
        return {"accuracy": self.accuracy, "accuracy_interval": list(self.accuracy_interval),
                "macro_f1": self.macro_f1, "macro_f1_interval": list(self.macro_f1_interval), "texts": self.texts,
                "labels": {name: score.as_dict("texts") for name, score in self.labels.items()}}


def measure_labels(given: Sequence[str], wanted: Sequence[str]) -> ClassifierQuality:
    """Return how well the given labels agree with the wanted ones."""
    if not wanted or len(given) != len(wanted):
        raise DataError(f"{len(wanted):,} labelled texts and {len(given):,} labels: give a label for each")
    names = sorted({*given, *wanted})
    number = {name: id for id, name in enumerate(names)}
    counts = label_counts(np.array([number[name] for name in given]), np.array([number[name] for name in wanted]),
                          len(names))
    drawn, total, scores = resample(counts, SAMPLES, SEED), counts.sum(0), score_labels(given, wanted)
    return ClassifierQuality(
        float(accuracy_of(total)), over_sentences(accuracy_of(drawn)), float(macro_f1_of(total)),
        over_sentences(macro_f1_of(drawn)), len(wanted), {name: scores[name] for name in names})


def score_labels(given: Sequence[str], wanted: Sequence[str]) -> dict[str, LabelScore]:
    """Return the score of each label that is given or wanted."""
    right = Counter(label for label, other in zip(given, wanted, strict=True) if label == other)
    offered, asked = Counter(given), Counter(wanted)
    return {label: LabelScore(right[label], offered[label], asked[label]) for label in asked | offered}


def label_counts(given: Ids, wanted: Ids, labels: int) -> NDArray[np.float64]:
    """Return (N, 3 L) counts, whose sums give the measures: the label a text is rightly given, is given, and has."""
    one = np.eye(labels)
    return np.concatenate((one[wanted] * (given == wanted)[:, None], one[given], one[wanted]), 1)


def accuracy_of(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of right labels, of summed counts (..., 3 L)."""
    right, _, wanted = np.split(totals, 3, -1)
    return right.sum(-1) / np.maximum(1, wanted.sum(-1))


def macro_f1_of(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean F1 of the labels that are wanted, of summed counts (..., 3 L)."""
    right, given, wanted = np.split(totals, 3, -1)
    f1 = 2 * right / np.maximum(1, given + wanted)
    there = wanted > 0
    return np.where(there, f1, 0.0).sum(-1) / np.maximum(1, there.sum(-1))
