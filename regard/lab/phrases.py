"""Short sentences of the phrasebook as word ids, with what is known of them: which word says which.

    learned, held_out = phrases()
    fit(model, lambda step: learned.drawn(128, seed, step), steps=150)
    accuracy(model, held_out.all())

Sentences of at most seven words on either side, of the commonest French words only, so that a small model can learn
them in seconds. They are the same for every seed; weights and batches are not.   N pairs · L source words
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from regard.corpora.phrasebook import pairs
from regard.data.tokens.words import WordTokenizer
from regard.lab.exercises import FIRST, generator
from regard.lab.tiny import Exercise
from regard.metrics.alignment_error import Gold

DRAWN = 14_000                             # pairs of the phrasebook, of which the short and common are taken
LONGEST = 7                                # words, on either side; <eos> comes after them
WORDS = 250                                # French words
HELD_OUT = 200
UNK, EOS = 3, 2


@dataclass(frozen=True)
class Phrases:
    source: Tensor                         # (N, LONGEST + 1), each row ended by <eos>, then <pad>
    target: Tensor
    source_lengths: Tensor                 # (N,), <eos> counted
    target_lengths: Tensor
    links: tuple[frozenset[tuple[int, int]], ...]          # (source word, target word)
    vocab: tuple[int, int]                 # words of the source, words of the target

    def __len__(self) -> int:
        return len(self.source)

    def rows(self, row: Tensor) -> Exercise:
        targets, lengths = self.target[row], self.target_lengths[row]
        tokens = torch.cat((torch.ones(len(row), 1, dtype=torch.long), targets[:, :-1]), 1)             # <bos> first
        counts = torch.arange(targets.shape[1]) < lengths[:, None]
        return Exercise(tokens, targets, counts, self.source[row], self.source_lengths[row], lengths)

    def drawn(self, rows: int, seed: int, step: int) -> Exercise:
        return self.rows(torch.randint(len(self), (rows,), generator=generator(seed, step)))

    def all(self) -> Exercise:
        return self.rows(torch.arange(len(self)))

    def gold(self, row: int) -> Gold:
        return Gold(self.links[row])

    def crossing(self) -> Tensor:
        """The rows in which not every word stands where its translation does."""
        return torch.tensor([row for row, links in enumerate(self.links) if any(i != j for i, j in links)])


@cache
def phrases() -> tuple[Phrases, Phrases]:
    """Those to learn from, and those held out. No sentence is in both: the phrasebook gives each once."""
    split = WordTokenizer([]).split
    every = [(split(pair.source.lower()), split(pair.target.lower()), pair.alignment) for pair in pairs(DRAWN)]
    short = [each for each in every if len(each[0]) <= LONGEST and len(each[1]) <= LONGEST]
    common = {word for word, _ in Counter(word for words, _, _ in short for word in words).most_common(WORDS)}
    usual = [each for each in short if common.issuperset(each[0])]
    english = sorted({word for _, words, _ in usual for word in words})
    source, source_lengths = _ids([words for words, _, _ in usual], sorted(common))
    target, target_lengths = _ids([words for _, words, _ in usual], english)
    links, vocab = tuple(frozenset(each[2]) for each in usual), (FIRST + len(common), FIRST + len(english))

    def part(rows: slice) -> Phrases:
        return Phrases(source[rows], target[rows], source_lengths[rows], target_lengths[rows], links[rows], vocab)

    return part(slice(HELD_OUT, None)), part(slice(0, HELD_OUT))


def _ids(lines: list[list[str]], words: list[str]) -> tuple[Tensor, Tensor]:
    known = {word: FIRST + row for row, word in enumerate(words)}
    rows = [[*(known[word] for word in line), EOS, *[0] * (LONGEST - len(line))] for line in lines]
    return torch.tensor(rows), torch.tensor([len(line) + 1 for line in lines])
