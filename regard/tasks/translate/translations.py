"""Translations of lines, the options by which they are made, and notices for the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.decoding.beam import BeamOptions, Hypothesis
from regard.decoding.sampling import Sampling

Say = Callable[[str], None]
Weights = NDArray[np.float32]              # (layers, heads, target tokens, source tokens)


@dataclass(frozen=True)
class Candidate:
    """One translation of a line."""

    text: str
    score: float                           # log p / tokens^length penalty, and the coverage penalty if there is one
    log_prob: float
    tokens: int                            # the end included
    finished: bool = True                  # it came to an end before the limit


@dataclass(frozen=True)
class Translation:
    """A line, its translation, and, with `alignments`, the attention by which it was written."""

    source: str
    text: str = ""
    score: float = 0.0
    log_prob: float = 0.0
    n_best: tuple[Candidate, ...] = ()
    sentences: int = 0                     # into which the line was cut; 1: it was read whole
    source_pieces: tuple[str, ...] = ()
    target_pieces: tuple[str, ...] = ()
    links: frozenset[tuple[int, int]] = frozenset()   # (source word, target word), counted from 0
    weights: Weights | None = None


@dataclass(frozen=True)
class TranslateOptions:
    """Options of a translator. All but `batch` may change the result."""

    search: BeamOptions = field(default_factory=BeamOptions)
    sampling: Sampling | None = None       # in the place of a search: `search.n_best` targets are drawn
    alignments: bool = False               # also return the attention to the source
    words: str = "word"                    # what a word is, in links: word · whitespace
    batch: int | None = None               # source tokens at once, beams counted

    @classmethod
    def of(
        cls, *, beam: int = 5, length_penalty: float = 1.0, n_best: int = 1, coverage: float = 0.0, no_repeat: int = 0,
        sampling: Sampling | None = None, **others: Any,
    ) -> TranslateOptions:
        """Return the options that `translate` takes by name; sampling needs no beams."""
        width = beam if sampling is None else max(beam, n_best)
        return cls(BeamOptions(width, length_penalty, n_best, no_repeat, coverage), sampling, **others)


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a line: its text and ids, its best targets, and the pieces of each."""

    text: str
    ids: list[int]
    found: list[Hypothesis]
    pieces: list[list[str]]

    def spell(self, number: int) -> str:
        return "".join(self.pieces[number])


class Notices:
    """Counts of lines that a user should know of, each told once."""

    def __init__(self, say: Say | None):
        self.say, self.cut, self.endless = say, 0, 0

    def count(self, results: Iterable[Translation]) -> None:
        for each in results:
            self.cut += each.sentences > 1
            self.endless += bool(each.n_best) and not each.n_best[0].finished

    def tell(self, context: int) -> None:
        if self.say is not None:
            for text, number in self.as_counts(context).items():
                self.say(f"{lines(number)} {text}")

    def as_counts(self, context: int) -> dict[str, int]:
        """Return how many lines each notice is of; those of no line are left out."""
        return {text: number for text, number in (
            (f"longer than the {context} tokens that the model reads: cut into sentences, translated one by one, and "
             "put together again", self.cut),
            ("came to no end before the limit: given as far as the model wrote", self.endless)) if number}


def lines(number: int) -> str:
    return f"{number:,} line{'s' * (number != 1)}"
