"""The quality of tags of words: accuracy with its interval, on ambiguous and on unseen words too, and of each tag.

Beside it stands the most-frequent-tag baseline: each word gets the tag that it has most often in the training part, and
a word that is not there the most frequent tag of all. What is ambiguous and what is unseen also depends on the training
part alone.   S sentences · W words
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.errors import DataError
from regard.metrics.classification import SAMPLES, SEED, LabelScore, score_labels
from regard.metrics.intervals import over_sentences
from regard.metrics.resampling import Interval, resample

Words = Sequence[str]
Tags = Sequence[str]


class TagCounts:
    """The most-frequent-tag baseline: counts of each word with each tag in the training part."""

    def __init__(self, sentences: Iterable[tuple[Words, Tags]]):
        self.counts: dict[str, Counter[str]] = {}
        total: Counter[str] = Counter()
        for words, tags in sentences:
            for word, tag in zip(words, tags, strict=True):
                self.counts.setdefault(word, Counter())[tag] += 1
            total.update(tags)
        if not total:
            raise DataError("there are no tagged words to count: give sentences of at least one word")
        self.usual = _most_frequent(total)
        self.best = {word: _most_frequent(count) for word, count in self.counts.items()}

    def tag(self, words: Words) -> list[str]:
        """Return the most frequent tag of each word; of a word that was never seen, the most frequent of all."""
        return [self.best.get(word, self.usual) for word in words]

    def ambiguous(self, word: str) -> bool:
        """Return whether the word was seen with more than one tag."""
        return len(self.counts.get(word, ())) > 1

    def unseen(self, word: str) -> bool:
        return word not in self.counts


def _most_frequent(counts: Counter[str]) -> str:
    """Return the tag with the largest count; of several, the first of the alphabet."""
    return min(counts, key=lambda tag: (-counts[tag], tag))


@dataclass(frozen=True)
class Share:
    """So many right of so many."""

    right: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        return self.right / max(1, self.total)


@dataclass(frozen=True)
class Tagging:
    """The measures of one tagger on tagged sentences; those that need the training part, only where it is known."""

    words: Share
    interval: Interval                                     # of the accuracy, 95% over sentences
    sentences: int
    tags: dict[str, LabelScore]
    ambiguous: Share = field(default_factory=Share)        # words that have several tags in the training part
    unseen: Share = field(default_factory=Share)           # words that are not in it
    baseline: Share | None = None                          # the most frequent tag of each word

    @property
    def accuracy(self) -> float:
        return self.words.share

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the tags that the sentences have."""
        wanted = [each.f1 for each in self.tags.values() if each.wanted]
        return sum(wanted) / len(wanted)

    @property
    def errors_gone(self) -> float | None:
        """The share of the baseline's errors that this tagger does not make, on balance."""
        if self.baseline is None or self.baseline.right == self.baseline.total:
            return None
        return 1 - (self.words.total - self.words.right) / (self.baseline.total - self.baseline.right)

    def as_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "accuracy": self.accuracy, "accuracy_interval": list(self.interval), "macro_f1": self.macro_f1,
            "words": self.words.total, "sentences": self.sentences,
            "tags": {tag: each.as_dict("words") for tag, each in sorted(self.tags.items())}}
        if self.baseline is None:
            return values
        return values | {
            "ambiguous_accuracy": self.ambiguous.share, "ambiguous_words": self.ambiguous.total,
            "unseen_accuracy": self.unseen.share, "unseen_words": self.unseen.total,
            "baseline_accuracy": self.baseline.share, "errors_gone": self.errors_gone}


def measure_tags(
    sentences: Sequence[tuple[Words, Tags]], given: Sequence[Tags], counts: TagCounts | None = None
) -> Tagging:
    """Return how well `given` tags agree with those of the sentences; with the counts of the training part, how well on
    ambiguous and on unseen words, and the baseline."""
    if not sentences or len(sentences) != len(given):
        raise DataError(f"{len(sentences):,} tagged sentences and tags for {len(given):,}: give tags for each")
    right = [[tag == other for tag, other in zip(tags, row, strict=True)]
             for (_, tags), row in zip(sentences, given, strict=True)]
    by_sentence = np.array([(sum(row), len(row)) for row in right], np.float64)              # (S, 2)
    drawn = resample(by_sentence, SAMPLES, SEED)
    total = _share(flag for row in right for flag in row)
    scores = score_labels([tag for row in given for tag in row], [tag for _, tags in sentences for tag in tags])
    tagging = Tagging(total, over_sentences(drawn[:, 0] / drawn[:, 1]), len(sentences), scores)
    if counts is None:
        return tagging
    pairs = [(word, flag) for (words, _), row in zip(sentences, right, strict=True)
             for word, flag in zip(words, row, strict=True)]
    baseline = _share(tag == usual for words, tags in sentences
                      for tag, usual in zip(tags, counts.tag(words), strict=True))
    return replace(tagging, ambiguous=_share(flag for word, flag in pairs if counts.ambiguous(word)),
                   unseen=_share(flag for word, flag in pairs if counts.unseen(word)), baseline=baseline)


def _share(flags: Iterable[bool]) -> Share:
    counted = Counter(flags)
    return Share(counted[True], counted.total())
