"""Word alignments: which source word each target word comes from, read off the attention, and how wrong that is.

The alignment error rate (Och and Ney 2003) of links A against sure links S and possible ones P, which include S:

    AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

In Pharaoh format an alignment is written `0-0 1-2 2-1`, source before target; `1?2` marks a link that is only possible.
T target tokens · L source tokens
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import DataError

Link = tuple[int, int]                     # (source word, target word)
LINK = re.compile(r"(\d+)([-?p])(\d+)")


@dataclass(frozen=True)
class Gold:
    """The gold alignment: links that must be there, and links that may be."""

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()

    @property
    def allowed(self) -> frozenset[Link]:
        return self.sure | self.possible


@dataclass(frozen=True)
class ErrorRate:
    """Counts over many sentences, so that rates are of all links together."""

    links: int = 0
    sure: int = 0
    right_sure: int = 0
    right: int = 0

    def __add__(self, other: ErrorRate) -> ErrorRate:
        return ErrorRate(self.links + other.links, self.sure + other.sure, self.right_sure + other.right_sure,
                         self.right + other.right)

    @property
    def aer(self) -> float:
        return 1 - (self.right_sure + self.right) / max(1, self.links + self.sure)

    @property
    def precision(self) -> float:
        return self.right / max(1, self.links)

    @property
    def recall(self) -> float:
        return self.right_sure / max(1, self.sure)


def error_rate(found: Iterable[Link], gold: Gold) -> ErrorRate:
    links = set(found)
    return ErrorRate(len(links), len(gold.sure), len(links & gold.sure), len(links & gold.allowed))


# ---------------------------------------------------------------------------------------- from attention


def word_weights(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Tensor:
    """(words, words) from (T, L) weights of tokens: what the pieces of a source word get is added up, and the pieces
    of a target word are averaged. `source_words[l]` is the word of token l, -1 for one that belongs to none (<eos>)."""
    source, target = (torch.tensor(list(words), device=weights.device) for words in (source_words, target_words))
    summed = weights.new_zeros(weights.shape[0], int(source.max()) + 2)
    summed.index_add_(1, torch.where(source < 0, summed.shape[1] - 1, source), weights)
    read = weights.new_zeros(int(target.max()) + 2, summed.shape[1])
    read.index_add_(0, torch.where(target < 0, read.shape[0] - 1, target), summed)
    pieces = torch.bincount(target[target >= 0], minlength=read.shape[0] - 1).clamp(min=1)
    return read[:-1, :-1] / pieces[:, None].to(read.dtype)


# ----------------------------------------------------------------------------------------------- Pharaoh


def read_pharaoh(line: str, where: str = "the alignment") -> Gold:
    sure: set[Link] = set()
    possible: set[Link] = set()
    for text in line.split():
        match = LINK.fullmatch(text)
        if match is None:
            raise DataError(f"{where}: {text!r} is no link; write source-target, counted from 0, as in 0-0 1-2")
        link = int(match[1]), int(match[3])
        (sure if match[2] == "-" else possible).add(link)
    return Gold(frozenset(sure), frozenset(possible))


def write_pharaoh(links: Iterable[Link]) -> str:
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
