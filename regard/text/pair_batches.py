"""Batches of sentence pairs: by a budget of tokens, of similar length, as a pure function of (seed, step).

Pairs whose targets are about as long share a bucket, and a batch of a bucket has as many rows as the budget allows at
that width; so an epoch always has the same number of batches, whatever the order of its pairs. Within a bucket some
batches are drawn together and sorted by the length of the source, to pad little on that side too.
B batch · T time · L source length
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import DataError
from regard.text.batches import Batch
from regard.text.shards import Shard
from regard.text.shuffle import key_of, permute
from regard.text.vocabulary import BOS, PAD

STEP = 2                      # widths of the buckets differ by so many tokens
POOL = 4                      # batches that are drawn together and sorted by the length of their sources

_BATCHES, _PAIRS = range(2)   # what a random number is for
Positions = NDArray[np.int64]


@dataclass(frozen=True)
class PairBatch(Batch):
    """A batch of targets, and the source of each row: (B, L), of which `source_lengths` (B,) are real."""

    source: Tensor | None = None
    source_lengths: Tensor | None = None

    @property
    def read(self) -> int:
        """Target tokens: what budgets and speeds of translators count."""
        return self.real

    def rows(self, first: int, stop: int) -> PairBatch:
        assert self.source is not None and self.source_lengths is not None
        part = super().rows(first, stop)
        return replace(part, source=self.source[first:stop],                          # type: ignore[call-arg, return-value]
                       source_lengths=self.source_lengths[first:stop])

    def to(self, device: torch.device) -> PairBatch:
        assert self.source is not None and self.source_lengths is not None
        return replace(super().to(device), source=self.source.to(device),             # type: ignore[call-arg, return-value]
                       source_lengths=self.source_lengths.to(device))


class Side:
    """One language: where each of its sentences stands, <eos> included."""

    def __init__(self, shard: Shard):
        self.data = shard.tokens
        ends = np.asarray(shard.ends).astype(np.int64)
        self.starts, self.lengths = np.append(0, ends[:-1]), np.diff(ends, prepend=0)

    def __len__(self) -> int:
        return len(self.starts)

    def padded(self, chosen: Positions) -> tuple[NDArray[np.int64], Positions]:
        """(B, longest) ids with pads at the right, and the lengths."""
        starts, lengths = self.starts[chosen], self.lengths[chosen]
        at = np.arange(int(lengths.max()))
        ids = self.data[np.minimum(starts[:, None] + at, len(self.data) - 1)].astype(np.int64)
        ids[at >= lengths[:, None]] = PAD
        return ids, lengths


class Pairs:
    """Sentence pairs for training, in batches of at most `budget` target tokens, pads included."""

    carries = False

    def __init__(self, source: Shard, target: Shard, *, budget: int, seed: int = 0, bos: int = BOS):
        self.source, self.target, self.seed, self.bos = Side(source), Side(target), seed, bos
        if len(self.source) != len(self.target) or not len(self.source):
            raise DataError(f"{len(self.source):,} sources and {len(self.target):,} targets are no pairs")
        widths = -(-self.target.lengths // STEP) * STEP
        self.buckets = [Bucket(np.flatnonzero(widths == width), max(1, budget // int(width)))
                        for width in np.unique(widths)]
        self.first = np.cumsum([0, *(len(bucket) for bucket in self.buckets)])        # batch of each bucket

    def __len__(self) -> int:
        return int(self.first[-1])

    def batch(self, step: int) -> PairBatch:
        epoch, index = divmod(step, len(self))
        place = int(permute(np.array([index]), len(self), key_of(self.seed, epoch, _BATCHES))[0])
        which = int(np.searchsorted(self.first, place, side="right")) - 1
        key = key_of(self.seed, epoch, which, _PAIRS)
        return self.of(self.buckets[which].pairs(place - int(self.first[which]), key, self.source.lengths))

    def of(self, chosen: Positions) -> PairBatch:
        return pair_batch(self.source, self.target, chosen, self.bos)


@dataclass(frozen=True)
class Bucket:
    """Pairs with targets of about one length, and how many of them make a batch."""

    members: Positions
    rows: int

    def __len__(self) -> int:
        return -(-len(self.members) // self.rows)

    def pairs(self, batch: int, key: int, source_lengths: Positions) -> Positions:
        """The pairs of one batch of an epoch: of its pool, those that stand at its place when sorted by length."""
        pool, place = divmod(batch, POOL)
        first, stop = pool * POOL * self.rows, min((pool + 1) * POOL * self.rows, len(self.members))
        drawn = self.members[permute(np.arange(first, stop), len(self.members), key)]
        by_length = drawn[np.argsort(source_lengths[drawn], kind="stable")]
        return by_length[place * self.rows:(place + 1) * self.rows]


def pair_batch(source: Side, target: Side, chosen: Positions, bos: int = BOS) -> PairBatch:
    targets, lengths = target.padded(chosen)
    tokens = np.concatenate((np.full((len(chosen), 1), bos), targets[:, :-1]), 1)
    tokens[np.arange(targets.shape[1]) >= lengths[:, None]] = PAD
    items, source_lengths = source.padded(chosen)
    return PairBatch(*map(torch.from_numpy, (tokens, targets, lengths, items, source_lengths)))


@dataclass(frozen=True)
class HeldOutPairs:
    """Every held-out pair once, in batches of similar length; with `every` > 1 only each such batch."""

    source: Shard
    target: Shard
    budget: int
    bos: int = BOS
    every: int = 1

    def __iter__(self) -> Iterator[PairBatch]:
        source, target = Side(self.source), Side(self.target)
        widest = np.maximum(source.lengths, target.lengths)
        order, first, index = np.argsort(widest, kind="stable"), 0, 0
        while first < len(order):
            # Sorted, so the last of a batch is its widest: as many rows as fit at that width.
            costs = widest[order[first:first + self.budget]] * np.arange(1, len(order[first:first + self.budget]) + 1)
            rows = max(1, int(np.searchsorted(costs, self.budget, side="right")))
            if index % self.every == 0:
                yield pair_batch(source, target, order[first:first + rows], self.bos)
            first, index = first + rows, index + 1
