"""Batches of sentence pairs: by a budget of tokens, of similar length, as a pure function of (seed, step).

Pairs whose targets are about as long share a bucket, and a batch of a bucket has as many rows as the budget allows at
that width; so an epoch always has the same number of batches, whatever the order of its pairs. Within a bucket some
batches are drawn together and sorted by the length of the source, to pad little on that side too.
B batch · T time · L source length
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batching.shuffle import key_of, permute
from regard.data.batching.text_batches import Batch
from regard.data.reading.shards import Shard
from regard.data.tokens.vocabulary import BOS, PAD
from regard.errors import DataError

STEP = 2                      # widths of the buckets differ by so many tokens
POOL = 4                      # batches that are drawn together and sorted by the length of their sources

_BATCHES, _PAIRS = range(2)   # what a random number is for
Positions = NDArray[np.int64]


@dataclass(frozen=True)
class PairBatch(Batch):
    """A batch of targets, and the source of each row: (B, L), of which `source_lengths` (B,) are real; or pictures."""

    source: Tensor | None = None
    source_lengths: Tensor | None = None

    @property
    def read(self) -> int:
        """Target tokens: what budgets and speeds of translators count."""
        return self.real

    def source_items(self) -> tuple[Tensor | None, Tensor | None]:
        return self.source, self.source_lengths


class Sentences:
    """One language: where each of its sentences stands, <eos> included."""

    def __init__(self, shard: Shard):
        self.data = shard.tokens
        ends = np.asarray(shard.ends).astype(np.int64)
        self.starts, self.lengths = np.append(0, ends[:-1]), np.diff(ends, prepend=0)

    def __len__(self) -> int:
        return len(self.starts)

    def padded(
        self, chosen: Positions, widths: int = 0, of: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.int64], Positions]:
        """(B, longest) ids with pads at the right, and the lengths; as long as a multiple of `widths`. In the place of
        each token's id may stand what `of` has for it."""
        starts, lengths = self.starts[chosen], self.lengths[chosen]
        at = np.arange(int(rounded(lengths.max(), widths or 1)))
        data = self.data if of is None else of
        ids = data[np.minimum(starts[:, None] + at, len(data) - 1)].astype(np.int64)
        ids[at >= lengths[:, None]] = PAD
        return ids, lengths


class Pictures:
    """Pictures as sources: the row of each in an array (N, S, S, 3) of bytes. None has a length."""

    def __init__(self, images: NDArray[np.uint8], rows: Positions):
        self.images, self.rows = images, rows
        self.lengths = np.ones(len(rows), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def padded(self, chosen: Positions, widths: int = 0) -> tuple[NDArray[np.uint8], None]:
        """(B, 3, S, S): colours first, as models read them."""
        return np.ascontiguousarray(self.images[self.rows[chosen]].transpose(0, 3, 1, 2)), None


def side_of(source: Shard | Pictures) -> Sentences | Pictures:
    return Sentences(source) if isinstance(source, Shard) else source


class Pairs:
    """Sentence pairs for training, in batches of at most `budget` target tokens, pads included.

    Pairs of which a side is longer than `longest` are left out, and counted. With `widths` both sides are padded to
    multiples of that, so that batches have few shapes.
    """

    def __init__(self, source: Shard | Pictures, target: Shard, *, budget: int, seed: int = 0, bos: int = BOS,
                 longest: int | None = None, widths: int = 0):
        self.source, self.target = side_of(source), Sentences(target)
        self.seed, self.bos, self.widths = seed, bos, widths
        if len(self.source) != len(self.target) or not len(self.source):
            raise DataError(f"{len(self.source):,} sources and {len(self.target):,} targets are no pairs")
        fits = within(self.source, self.target, longest)
        self.too_long = int((~fits).sum())
        if not fits.any():
            raise DataError(f"every pair is longer than {longest} tokens: raise --context")
        wide = rounded(self.target.lengths, widths or STEP)
        self.buckets = [Bucket(members, max(1, budget // width)) for width, members in by_width(wide, fits)]
        self.first = np.cumsum([0, *(len(bucket) for bucket in self.buckets)])        # batch of each bucket
        self._kept: tuple[int, dict[int, list[Positions]]] = (-1, {})
        self.tokens_a_step = float(self.target.lengths[fits].sum() / self.first[-1])

    def __len__(self) -> int:
        return int(self.first[-1])

    def batch(self, step: int) -> PairBatch:
        epoch, index = divmod(step, len(self))
        place = int(permute(np.array([index]), len(self), key_of(self.seed, epoch, _BATCHES))[0])
        which = int(np.searchsorted(self.first, place, side="right")) - 1
        chosen = self._order(epoch, which)[place - int(self.first[which])]
        return pair_batch(self.source, self.target, chosen, self.bos, self.widths)

    def _order(self, epoch: int, which: int) -> list[Positions]:
        """The batches of a bucket in an epoch; those of the last epoch asked for are kept at hand."""
        if self._kept[0] != epoch:
            self._kept = epoch, {}
        if which not in self._kept[1]:
            key = key_of(self.seed, epoch, which, _PAIRS)
            self._kept[1][which] = self.buckets[which].batches(key, self.source.lengths)
        return self._kept[1][which]


@dataclass(frozen=True)
class Bucket:
    """Pairs with targets of about one length, and how many of them make a batch."""

    members: Positions
    rows: int

    def __len__(self) -> int:
        return -(-len(self.members) // self.rows)

    def batches(self, key: int, source_lengths: Positions) -> list[Positions]:
        """The pairs of each batch of an epoch: drawn, and those of a pool sorted by the length of their sources."""
        drawn = self.members[permute(np.arange(len(self.members)), len(self.members), key)]
        pool = np.arange(len(drawn)) // (POOL * self.rows)
        drawn = drawn[np.lexsort((source_lengths[drawn], pool))]
        return [drawn[first:first + self.rows] for first in range(0, len(drawn), self.rows)]


def rounded(lengths: Any, multiple: int) -> Any:
    """Up to the next multiple."""
    return -(-lengths // multiple) * multiple


def by_width(wide: Positions, fits: NDArray[np.bool_]) -> Iterator[tuple[int, Positions]]:
    """Each width that occurs with the pairs that have it, of those that fit: sorted once, however many widths there
    are."""
    members = np.flatnonzero(fits)
    members = members[np.argsort(wide[members], kind="stable")]
    widths, first = np.unique(wide[members], return_index=True)
    return zip(widths.tolist(), np.split(members, first[1:]), strict=True)


def within(source: Sentences | Pictures, target: Sentences, longest: int | None) -> NDArray[np.bool_]:
    """True for the pairs that have both sides within so many tokens."""
    return np.maximum(source.lengths, target.lengths) <= (np.inf if longest is None else longest)


def pair_batch(
    source: Sentences | Pictures, target: Sentences, chosen: Positions, bos: int = BOS, widths: int = 0
) -> PairBatch:
    targets, lengths = target.padded(chosen, widths)
    tokens = np.concatenate((np.full((len(chosen), 1), bos), targets[:, :-1]), 1)
    tokens[np.arange(targets.shape[1]) >= lengths[:, None]] = PAD
    items, source_lengths = source.padded(chosen, widths)
    return PairBatch(*map(torch.from_numpy, (tokens, targets, lengths)), torch.from_numpy(items),    # type: ignore[call-arg]
                     None if source_lengths is None else torch.from_numpy(source_lengths))


@dataclass(frozen=True)
class HeldOutPairs:
    """Every held-out pair once, in batches of similar length; with `every` > 1 only each such batch.

    What is longer than the model's context on a side cannot be read at once, and is left out: `too_long` counts it.
    """

    source: Shard | Pictures
    target: Shard
    budget: int
    bos: int = BOS
    context: int | None = None
    every: int = 1

    @property
    def fits(self) -> NDArray[np.bool_]:
        """True for each pair that is read."""
        return within(side_of(self.source), Sentences(self.target), self.context)

    @property
    def too_long(self) -> int:
        return int((~self.fits).sum())

    def __iter__(self) -> Iterator[PairBatch]:
        source, target = side_of(self.source), Sentences(self.target)
        widest = np.maximum(source.lengths, target.lengths)
        order, first, index = np.argsort(widest, kind="stable"), 0, 0
        order = order[within(source, target, self.context)[order]]
        while first < len(order):
            # Sorted, so the last of a batch is its widest: as many rows as fit at that width.
            costs = widest[order[first:first + self.budget]] * np.arange(1, len(order[first:first + self.budget]) + 1)
            rows = max(1, int(np.searchsorted(costs, self.budget, side="right")))
            if index % self.every == 0:
                yield pair_batch(source, target, order[first:first + rows], self.bos)
            first, index = first + rows, index + 1
