"""Batches: which tokens are read and which are predicted at each step of training and evaluation.

`targets[b, t]` follows `tokens[b, t]`. Every class here is a pure function of the step: the order of an epoch
depends on (seed, epoch) alone, so training can stop anywhere and go on exactly as it would have.

B batch · T time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batching.shuffle import key_of, mix, permute
from regard.data.reading.shards import Shard
from regard.data.tokens.vocabulary import BOS, PAD
from regard.errors import DataError

FROM_NOTHING = 16             # one window in so many begins with <bos>, so that generation can start from nothing
POOL = 16                     # batches of documents drawn together and sorted by length, to pad less

_ORDER, _PHASE, _BEGIN, _WITHIN = range(4)      # what a random number is for

Positions = NDArray[np.int64]
Rows = tuple[Positions, Positions, NDArray[np.bool_]]      # starts, lengths, and whether a document begins there


@dataclass(frozen=True)
class Batch:
    """Tokens to read and targets to predict, (B, T) each; `lengths` (B,) counts the real ones, None: all."""

    tokens: Tensor
    targets: Tensor
    lengths: Tensor | None = None

    @property
    def real(self) -> int:
        """The number of real targets: the number the loss is an average over."""
        return self.targets.numel() if self.lengths is None else int(self.lengths.sum())

    @property
    def read(self) -> int:
        """The number of tokens read: what budgets and speeds count."""
        return self.real

    def is_real(self) -> Tensor:
        """(B, T), True where a target is real."""
        if self.lengths is None:
            return torch.ones_like(self.targets, dtype=torch.bool)
        return torch.arange(self.targets.shape[1], device=self.lengths.device) < self.lengths[:, None]

    def mask(self, scores: Tensor) -> Tensor:
        """The scores (B, T) with zeros at pads."""
        return scores if self.lengths is None else torch.where(self.is_real(), scores, 0.0)

    def source_items(self) -> tuple[Tensor | None, Tensor | None]:
        """The sources of the rows, and their lengths; None in a text by itself."""
        return None, None

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The batch with each of its tensors changed."""
        return replace(self, **{name: change(tensor) for name, tensor in vars(self).items() if tensor is not None})

    def rows(self, first: int, stop: int) -> Self:
        return self.map(lambda tensor: tensor[first:stop])

    def widened(self, multiple: int, most: int) -> Batch:
        """Return the rows padded to a multiple of so many positions (`most` at most), with lengths always given."""
        batch, time = self.targets.shape
        pads = min(-(-time // multiple) * multiple, max(most, time)) - time
        tokens, targets = (torch.nn.functional.pad(t, (0, pads), value=PAD) for t in (self.tokens, self.targets))
        lengths = torch.full((batch,), time) if self.lengths is None else self.lengths
        return replace(self, tokens=tokens, targets=targets, lengths=lengths)

    def to(self, device: torch.device) -> Self:
        return self if device.type == "cpu" else self.map(lambda tensor: sent(tensor, device))


@dataclass(frozen=True)
class SparseBatch(Batch):
    """Rows of tokens of which some have a target: `targets` hold <pad> wherever nothing is asked.

    A target is of a position, (B, T), or of a whole row, (B, 1).
    """

    @property
    def real(self) -> int:
        return int(self.is_real().sum())

    @property
    def read(self) -> int:
        return self.tokens.numel() if self.lengths is None else int(self.lengths.sum())

    def is_real(self) -> Tensor:
        return self.targets != PAD

    def mask(self, scores: Tensor) -> Tensor:
        return torch.where(self.is_real(), scores, 0.0)

    def widened(self, multiple: int, most: int) -> Batch:
        """Return the same rows with more pads; the target of a whole row stays one."""
        wide = Batch(self.tokens, self.tokens, self.lengths).widened(multiple, most)
        pads = wide.tokens.shape[1] - self.tokens.shape[1] if self.targets.shape == self.tokens.shape else 0
        targets = torch.nn.functional.pad(self.targets, (0, pads), value=PAD)
        return replace(self, tokens=wide.tokens, targets=targets, lengths=wide.lengths)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """On its way to a GPU: nothing waits for it, as from ordinary memory it would for all that was asked before."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


class Windows:
    """Windows of `context` tokens that tile the stream: from a new random phase, in a new order, each epoch.

    A window may span documents. What lies before the phase or after the last whole window waits for another
    epoch. The last batch of an epoch is filled up with the first windows of the next.
    """

    def __init__(self, shard: Shard, context: int, batch: int, seed: int = 0, bos: int = BOS):
        total = _some_tokens(shard)
        self.data, self.batch_size, self.seed, self.bos = shard.tokens, batch, seed, bos
        self.context = min(context, total)
        self.count = max(1, (total - self.context + 1) // self.context)       # windows in an epoch
        self.slack = total - self.count * self.context                        # the largest phase

    def __len__(self) -> int:
        return -(-self.count // self.batch_size)

    def batch(self, step: int) -> Batch:
        epoch, index = divmod(step, len(self))
        rows = index * self.batch_size + np.arange(self.batch_size)
        starts, fresh = np.empty_like(rows), np.empty(rows.shape, dtype=bool)
        for turn in np.unique(rows // self.count):
            chosen = rows // self.count == turn
            starts[chosen], fresh[chosen] = self._windows(rows[chosen] % self.count, epoch + int(turn))
        return _padded(self.data, starts, np.full_like(starts, self.context), fresh | (starts == 0), self.bos)

    def _windows(self, rows: Positions, epoch: int) -> tuple[Positions, NDArray[np.bool_]]:
        """The starts of the windows at these places in the epoch's order, and True where one begins with <bos>."""
        windows = permute(rows, self.count, key_of(self.seed, epoch, _ORDER))
        phase = key_of(self.seed, epoch, _PHASE) % (self.slack + 1)
        fresh = mix(windows.astype(np.uint64), key_of(self.seed, epoch, _BEGIN)) % np.uint64(FROM_NOTHING) == 0
        return phase + windows * self.context, fresh


class Streams:
    """The stream in `batch` lanes read side by side: row b of a batch goes on where row b of the last one ended.

    For truncated back-propagation with a carried state. Each epoch the lanes start from a new random phase.
    """

    def __init__(self, shard: Shard, context: int, batch: int, seed: int = 0, bos: int = BOS):
        total = _some_tokens(shard)
        self.data, self.seed, self.bos = shard.tokens, seed, bos
        self.batch_size = min(batch, total)
        self.context = min(context, total // self.batch_size)
        self.count = total // (self.batch_size * self.context)                # steps in an epoch
        self.slack = total - self.count * self.batch_size * self.context

    def __len__(self) -> int:
        return self.count

    def fresh(self, step: int) -> bool:
        """True if the state must be reset before this step."""
        return step % self.count == 0

    def batch(self, step: int) -> Batch:
        epoch, index = divmod(step, self.count)
        phase = key_of(self.seed, epoch, _PHASE) % (self.slack + 1)
        lanes = np.arange(self.batch_size) * (self.count * self.context)
        starts, first = phase + lanes + index * self.context, np.full(self.batch_size, index == 0)
        return _padded(self.data, starts, np.full_like(starts, self.context), first, self.bos)


class Documents:
    """Documents framed by <bos> and <eos>, one a row, padded at the right to the longest of the batch.

    A document longer than the context is cut into consecutive pieces, each a row of its own that first reads
    the token before it; `cut` counts such documents. Batches are made of documents of similar length.
    """

    def __init__(self, shard: Shard, context: int | None, batch: int, seed: int = 0, bos: int = BOS):
        _some_tokens(shard)
        self.data, self.batch_size, self.seed, self.bos = shard.tokens, batch, seed, bos
        self.context = context
        self.rows = _Rows(shard, context)
        self.count, self.cut = self.rows.count, self.rows.cut
        self.pools = SortedPools(self.count, lambda rows: self.rows.at(rows)[1], batch, seed)

    def __len__(self) -> int:
        return len(self.pools)

    def batch(self, step: int) -> Batch:
        return _padded(self.data, *self.rows.at(self.pools.rows(step)), self.bos)


class SortedPools:
    """The rows of each batch of training, of similar length: in a new order each epoch.

    The rows of some consecutive batches are drawn together and sorted by length. The last batch of an epoch is filled
    up with the first rows of the next.
    """

    def __init__(self, count: int, lengths: Callable[[Positions], Positions], batch: int, seed: int):
        self.count, self.lengths, self.batch_size, self.seed = count, lengths, batch, seed
        self._pool: tuple[tuple[int, int], Positions] | None = None

    def __len__(self) -> int:
        return -(-self.count // self.batch_size)

    def rows(self, step: int) -> Positions:
        """Return the numbers of the rows of this step's batch."""
        epoch, index = divmod(step, len(self))
        pool, place = divmod(index, POOL)
        rows = self._sorted_pool(epoch, pool)
        batches = len(rows) // self.batch_size
        chosen = int(permute(np.array([place]), batches, key_of(self.seed, epoch, pool, _WITHIN))[0])
        return rows[chosen * self.batch_size : (chosen + 1) * self.batch_size]

    def _sorted_pool(self, epoch: int, pool: int) -> Positions:
        """Return the rows of some consecutive batches, shortest first; the last is kept at hand."""
        if self._pool is None or self._pool[0] != (epoch, pool):
            batches = min(POOL, len(self) - pool * POOL)
            places = pool * POOL * self.batch_size + np.arange(batches * self.batch_size)
            rows = np.empty_like(places)
            for turn in np.unique(places // self.count):
                chosen = places // self.count == turn
                key = key_of(self.seed, epoch + int(turn), _ORDER)
                rows[chosen] = permute(places[chosen] % self.count, self.count, key)
            self._pool = (epoch, pool), rows[np.argsort(self.lengths(rows), kind="stable")]
        return self._pool[1]


class _Rows:
    """The rows that documents make: which stretch of the stream each one predicts."""

    def __init__(self, shard: Shard, context: int | None):
        self.ends = shard.ends
        lengths = np.diff(np.asarray(shard.ends), prepend=np.uint64(0)).astype(np.int64)
        self.context = context if context is not None else int(lengths.max())
        pieces = -(-lengths // self.context)
        self.cut = int(np.count_nonzero(pieces > 1))
        self.after = np.cumsum(pieces) if self.cut else None       # rows up to and with each document
        self.count = len(lengths) if self.after is None else int(self.after[-1])

    def at(self, rows: Positions) -> Rows:
        documents, piece = rows, np.zeros_like(rows)
        if self.after is not None:
            documents = np.searchsorted(self.after, rows, side="right")
            piece = rows - np.where(documents > 0, self.after[documents - 1], 0)
        begin = np.where(documents > 0, self.ends[documents - 1].astype(np.int64), 0)
        starts = begin + piece * self.context
        return starts, np.minimum(self.ends[documents].astype(np.int64) - starts, self.context), piece == 0


def evaluation_batches(
    shard: Shard, context: int | None, batch: int, bos: int = BOS, documents: bool = False
) -> Iterator[Batch]:
    """Every token of the shard exactly once as a target, in order.

    Windows of `context` from position 0, each first reading the token before it; or documents, framed and
    cut at the context. Without a context nothing is cut: one row is the whole stream, or a whole document.
    """
    total = _some_tokens(shard)
    rows = _Rows(shard, context) if documents else None
    width = context or total
    count = rows.count if rows else -(-total // width)
    for start in range(0, count, batch):
        chosen = np.arange(start, min(start + batch, count))
        if rows is not None:
            yield _padded(shard.tokens, *rows.at(chosen), bos)
        else:
            starts = chosen * width
            yield _padded(shard.tokens, starts, np.minimum(total - starts, width), starts == 0, bos)


def _some_tokens(shard: Shard) -> int:
    if not len(shard.tokens):
        raise DataError(f"the token shard {shard.path} is empty: give a text that the tokenizer finds tokens in")
    return len(shard.tokens)


def _padded(
    data: np.ndarray, starts: Positions, lengths: Positions, first: NDArray[np.bool_], bos: int
) -> Batch:
    """Rows of these lengths, padded; those marked `first` read <bos> before anything."""
    width = int(lengths.max())
    at = np.minimum(starts[:, None] + np.arange(-1, width), len(data) - 1)
    both = data[np.maximum(at, 0)].astype(np.int64)
    both[first, 0] = bos
    tokens, targets = both[:, :-1].copy(), both[:, 1:].copy()
    if (lengths == width).all():
        return Batch(torch.from_numpy(tokens), torch.from_numpy(targets))
    pads = np.arange(width) >= lengths[:, None]
    tokens[pads] = targets[pads] = PAD
    return Batch(torch.from_numpy(tokens), torch.from_numpy(targets), torch.from_numpy(lengths.copy()))
