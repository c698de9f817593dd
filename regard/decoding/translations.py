"""Translations of lines, how they are to be made, and what a user should know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.decoding.beam import Beam, Hypothesis
from regard.decoding.sampling import Sampling

Say = Callable[[str], None]
Weights = NDArray[np.float32]              # (layers, heads, target tokens, source tokens)


@dataclass(frozen=True)
class Candidate:
    """One way to say it."""

    text: str
    score: float                           # log p / tokens^length penalty, and the coverage penalty if there is one
    log_prob: float
    tokens: int                            # the end included
    finished: bool = True                  # it came to an end before the limit


@dataclass(frozen=True)
class Translation:
    """A line, its translation, and, if asked for, what was read to write it."""

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
class Way:
    """How to translate. What is chosen changes the outcome, but for `batch`: source tokens at once, beams counted."""

    beam: int = 5
    length_penalty: float = 1.0
    n_best: int = 1
    coverage: float = 0.0
    no_repeat: int = 0
    sampling: Sampling | None = None       # instead of a search: `n_best` targets are drawn
    alignments: bool = False               # keep what was read
    words: str = "word"                    # what a word is, in links: word · whitespace
    batch: int | None = None

    def search(self) -> Beam:
        width = self.beam if self.sampling is None else max(self.beam, self.n_best)
        return Beam(width, self.length_penalty, self.n_best, self.no_repeat, self.coverage)


@dataclass(frozen=True)
class Part:
    """A sentence of a line: its text and ids, what was found for it, and the pieces of each of these."""

    text: str
    ids: list[int]
    found: list[Hypothesis]
    pieces: list[list[str]]

    def spelled(self, place: int) -> str:
        return "".join(self.pieces[place])


class Notices:
    """What a user should know of many lines, said once."""

    def __init__(self, say: Say | None):
        self.say, self.cut, self.endless = say, 0, 0

    def count(self, results: Iterable[Translation]) -> None:
        for each in results:
            self.cut += each.sentences > 1
            self.endless += bool(each.n_best) and not each.n_best[0].finished

    def tell(self, context: int) -> None:
        if self.say is None:
            return
        if self.cut:
            self.say(f"{lines(self.cut)} longer than the {context} tokens that the model reads: cut into sentences, "
                     "translated one by one, and put together again")
        if self.endless:
            self.say(f"{lines(self.endless)} came to no end before the limit, and are given as far as they went")


def lines(number: int) -> str:
    return f"{number:,} line{'s' * (number != 1)}"
