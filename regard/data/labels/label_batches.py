"""Batches of labelled texts: a text a row, <eos> behind it, with the target of the text or of each of its tokens.

Every batch of training is a pure function of (seed, step). A text longer than the context is cut: its first tokens are
read.   B batch · T time
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.batching.pair_batches import Positions, Sentences
from regard.data.batching.text_batches import SortedPools, SparseBatch
from regard.data.labels.label_corpus import LabelledShard
from regard.errors import DataError


class LabelledRows(Sentences):
    """The texts of a shard as rows of at most `context` tokens."""

    def __init__(self, part: LabelledShard, context: int):
        if not len(part):
            raise DataError("there are no labelled texts to read: give some")
        super().__init__(part)
        self.part, self.shortened = part, int((self.lengths > context).sum())
        self.lengths = np.minimum(self.lengths, context)

    def batch(self, rows: Positions) -> SparseBatch:
        """Return these rows, padded at the right to the longest: targets (B, 1) of texts, or (B, T) of tokens."""
        tokens, lengths = self.padded(rows)
        own = self.part.targets
        targets = self.padded(rows, of=own)[0] if self.part.of_tokens else own[rows, None]
        return SparseBatch(torch.from_numpy(tokens), torch.from_numpy(targets), torch.from_numpy(lengths))


class LabelBatches:
    """Labelled texts for training, those of a batch of similar length; each epoch in a new order."""

    def __init__(self, part: LabelledShard, context: int, batch: int, seed: int = 0):
        self.rows = LabelledRows(part, context)
        self.pools = SortedPools(len(self.rows), lambda rows: self.rows.lengths[rows], batch, seed)
        self.shortened = self.rows.shortened
        self.tokens_a_step = float(self.rows.lengths.mean() * batch)

    def __len__(self) -> int:
        return len(self.pools)

    def batch(self, step: int) -> SparseBatch:
        return self.rows.batch(self.pools.rows(step))


@dataclass(frozen=True)
class HeldOutLabels:
    """Every held-out text once, in order; with `every` > 1 only each such batch."""

    part: LabelledShard
    context: int
    batch: int
    every: int = 1

    def __iter__(self) -> Iterator[SparseBatch]:
        rows = LabelledRows(self.part, self.context)
        for first in range(0, len(rows), self.batch * self.every):
            yield rows.batch(np.arange(first, min(first + self.batch, len(rows))))
