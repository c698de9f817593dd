"""Key/value caches: what attention remembers. All of it, or the last W positions.

B batch · T time · H heads of keys · K head width · C capacity · W window
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.contract import SequenceLayer, State, TensorMap
from regard.kernels import attend_next
from regard.kernels.host import least_and_most
from regard.kernels.precision import product_dtype
from regard.layers.positions import advance, positions_of_chunk


@dataclass
class Readable:
    """Keys and values (B, S, H, K) that the queries of a chunk may read, and the position of each.

    A position that is not to be read by anybody, for it was never written, is -1.
    """

    keys: Tensor
    values: Tensor
    at: Tensor               # (B, S) or (S,)
    even: bool = False       # known: all rows have read equally much, and this is all of it

    def first(self, slots: int) -> Readable:
        """Without what lies beyond so many slots."""
        if self.keys.shape[1] <= slots:
            return self
        return replace(self, keys=self.keys[:, :slots], values=self.values[:, :slots], at=self.at[..., :slots])


@dataclass
class KeyValueCache(State):
    """The keys and values of everything read so far. Slot j holds position j; the last slot is a bin for pads."""

    keys: Tensor             # (B, C + 1, H, K); K may be 0, where nobody reads keys
    values: Tensor           # (B, C + 1, H, V)
    count: Tensor            # (B,) tokens read
    follows: bool = False    # its layer reads rows where they lie: see `Followed`

    @property
    def capacity(self) -> int:
        return self.keys.shape[1] - 1

    def write(self, keys: Tensor, values: Tensor, lengths: Tensor | None) -> tuple[KeyValueCache, Readable]:
        """Add a chunk (B, T, H, K) behind each row's past, and give all there is to read now."""
        batch, length = keys.shape[:2]
        if lengths is None and not torch.is_grad_enabled() and (first := self.together()) is not None:
            return self._write_together(keys, values, first)
        at = positions_of_chunk(self.count, length)                                   # (B, T)
        slots = at
        if lengths is not None:
            real = torch.arange(length, device=at.device) < lengths[:, None]
            slots = torch.where(real, at, self.capacity)
        where = (torch.arange(batch, device=at.device)[:, None], slots)
        # A gradient may flow through the cache; only without one may it be written in place.
        put = torch.Tensor.index_put if torch.is_grad_enabled() else torch.Tensor.index_put_
        return self._read_on(put(self.keys, where, keys.to(self.keys.dtype)),
                             put(self.values, where, values.to(self.values.dtype)),
                             advance(self.count, length, lengths))

    def _write_together(self, keys: Tensor, values: Tensor, first: int) -> tuple[KeyValueCache, Readable]:
        """As `_write`, where all rows stand at one place: neighbouring slots need no index."""
        part = slice(first, first + keys.shape[1])
        self.keys[:, part], self.values[:, part] = keys, values
        cache, readable = self._read_on(self.keys, self.values, self.count + keys.shape[1])
        return cache, replace(readable, even=len(readable.at) == part.stop)

    def _read_on(self, keys: Tensor, values: Tensor, count: Tensor) -> tuple[KeyValueCache, Readable]:
        cache = replace(self, keys=keys, values=values, count=count)
        # What was not written yet, the bin included, stands later than any query: it may be read, to no avail.
        most = cache.written()
        return cache, Readable(keys[:, :most], values[:, :most], torch.arange(most, device=count.device))

    def together(self) -> int | None:
        """The number of tokens that every row has read, where it is one and known without waiting for a device."""
        known = least_and_most(self.count)
        return known[1] if known is not None and known[0] == known[1] else None

    def next(
        self, q: Tensor, k: Tensor, v: Tensor, slopes: Tensor | None, rates: Tensor | None
    ) -> tuple[Tensor | None, KeyValueCache]:
        """One new token: what its queries (B, 1, H, K) read, itself included: (B, H, 1, K). Its key and value are
        written in place; they and the queries are not turned yet, the kernel turns them by `rates`.

        Where no kernel does that nothing is read (None), and nothing written."""
        found = attend_next.attend_next(
            q[:, 0], k[:, 0], v[:, 0], self.keys, self.values, self.count, slopes, rates)
        return (None, self) if found is None else (found[0][:, :, None], replace(self, count=found[1]))

    def everything(self) -> Readable:
        """All slots, written or not: a mask by positions hides what is not."""
        return Readable(self.keys, self.values, torch.arange(self.keys.shape[1], device=self.count.device))

    def written(self) -> int:
        """The first so many slots hold all that was read; all slots, where that cannot be known without waiting."""
        known = least_and_most(self.count)
        return self.keys.shape[1] if known is None else max(1, known[1])

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> KeyValueCache | Followed:     # type: ignore[override]
        """Only what was written moves, and in place: room that is not used yet costs nothing. Or nothing moves."""
        slots = self.written()
        whole = slots == self.keys.shape[1] or torch.is_grad_enabled()
        if whole or not (self.keys.is_contiguous() and self.values.is_contiguous()):
            return self.select(rows, sources)

        def moved(cache: Tensor) -> Tensor:
            if len(rows) > len(cache):                     # more of them than before: somewhere else
                return written_again(cache[:, :slots].index_select(0, rows), cache.shape[1])
            entries = cache.flatten(1)[:, :slots * cache[0, 0].numel()]                # a view, as it is contiguous
            entries[:len(rows)] = entries.index_select(0, rows)                       # first read, then written
            return cache[:len(rows)]

        follows = self.follows and self.together() is not None
        table = attend_next.row_table(rows, self.keys) if follows else None
        if table is None or len(rows) > len(self.keys):
            state = replace(self, keys=moved(self.keys), values=moved(self.values),
                            count=self.count.index_select(0, rows))
            return state if table is None else state.reorder(torch.arange(len(rows)))
        return Followed(self.keys, self.values, self.count.index_select(0, rows), table)


@dataclass
class Followed(State):
    """Keys and values that stay where they were written while rows change places: `rows` says where they lie.

    So a beam search on a CPU follows its beams by one number a slot, and beams of one past read the same memory. All
    rows have read equally much, so that new slots are nobody's yet, in whatever row. What else may be asked of a state
    is asked of a cache of its own, which is made for it.
    """

    keys: Tensor             # (R, C + 1, H, K): the room, of at least as many rows
    values: Tensor           # (R, C + 1, H, K)
    count: Tensor            # (B,) tokens read
    rows: Tensor             # (B, C + 1): in which row of the room each slot of a row is

    def next(
        self, q: Tensor, k: Tensor, v: Tensor, slopes: Tensor | None, rates: Tensor | None
    ) -> tuple[Tensor | None, Followed]:
        found = attend_next.attend_next(
            q[:, 0], k[:, 0], v[:, 0], self.keys, self.values, self.count, slopes, rates, self.rows)
        return (None, self) if found is None else (found[0][:, :, None], replace(self, count=found[1]))

    def everything(self) -> Readable:
        return self.whole().everything()

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> Followed | KeyValueCache:     # type: ignore[override]
        if len(rows) > len(self.keys):
            return self.whole().reorder(rows, sources)
        return replace(self, count=self.count.index_select(0, rows), rows=self.rows.index_select(0, rows))

    def whole(self) -> KeyValueCache:
        """Every row by itself."""
        read = int(self.count.max()) if len(self.count) else 0
        where = self.rows[:, :read], torch.arange(read)
        keys, values = (written_again(room[where], room.shape[1]) for room in (self.keys, self.values))
        return KeyValueCache(keys, values, self.count, follows=True)

    def write(self, keys: Tensor, values: Tensor, lengths: Tensor | None) -> tuple[KeyValueCache, Readable]:
        return self.whole().write(keys, values, lengths)

    def map(self, f: TensorMap, source: TensorMap | None = None) -> KeyValueCache:                # type: ignore[override]
        return self.whole().map(f, source)

    def tensors(self, prefix: str = "") -> dict[str, Tensor]:
        return self.whole().tensors(prefix)


def written_again(entries: Tensor, slots: int) -> Tensor:
    """(B, C, H, K): so many slots, of which the first hold these entries and the others nothing yet."""
    room = entries.new_zeros(len(entries), slots, *entries.shape[2:])
    room[:, :entries.shape[1]] = entries
    return room


@dataclass
class WindowCache(State):
    """The keys and values of the last W positions: position p stands in slot p mod W. It never grows."""

    keys: Tensor             # (B, W, H, K)
    values: Tensor           # (B, W, H, K)
    count: Tensor            # (B,) tokens read

    def next(
        self, q: Tensor, k: Tensor, v: Tensor, slopes: Tensor | None, rates: Tensor | None
    ) -> tuple[None, WindowCache]:
        """No kernel reads a window."""
        return None, self

    def everything(self) -> Readable:
        return Readable(self.keys, self.values, newest(self.count, self.keys.shape[1]))

    def write(self, keys: Tensor, values: Tensor, lengths: Tensor | None) -> tuple[WindowCache, Readable]:
        """Read the past beside the chunk; then the newest position of each slot takes it over."""
        window, length = self.keys.shape[1], keys.shape[1]
        before, after = self.count, advance(self.count, length, lengths)
        chunk = positions_of_chunk(before, length)                                    # (B, T)
        readable = Readable(
            torch.cat((self.keys, keys.to(self.keys.dtype)), 1),
            torch.cat((self.values, values.to(self.values.dtype)), 1),
            torch.cat((newest(before, window), chunk), 1),
        )
        # Of the past and the chunk together, the one that each slot holds from now on.
        holds = newest(after, window)                                                 # (B, W)
        slot = torch.arange(window, device=holds.device)
        taken = torch.where(holds >= before[:, None], window + holds - before[:, None], slot)
        taken = taken.clamp(min=0)[..., None, None]
        keys, values = (each.gather(1, taken.expand(-1, -1, *each.shape[2:]))
                        for each in (readable.keys, readable.values))
        cache = WindowCache(keys, values, after)
        return cache, readable


def newest(count: Tensor, window: int) -> Tensor:
    """(B, W): the largest position below `count` that stands in each slot, or less than 0 if there is none."""
    last = count[:, None] - 1
    return last - (last - torch.arange(window, device=count.device)) % window


Cache = KeyValueCache | WindowCache | Followed


def make_cache(
    weight: Tensor, batch: int, capacity: int, window: int, *, heads: int, widths: tuple[int, int], follows: bool
) -> KeyValueCache | WindowCache:
    """An empty cache where the weight lives, in the precision of its products: all positions, or a window of them."""
    slots = window if 0 < window < capacity else capacity + 1
    keys, values = (torch.zeros(batch, slots, heads, width, device=weight.device, dtype=product_dtype(weight))
                    for width in widths)
    count = torch.zeros(batch, dtype=torch.long, device=weight.device)
    if 0 < window < capacity:
        return WindowCache(keys, values, count)
    return KeyValueCache(keys, values, count, follows)


def read_in_pieces(
    layer: SequenceLayer, x: Tensor, state: Any, lengths: Tensor | None, size: int
) -> tuple[Tensor, Any]:
    """A long prompt read by `size` positions at a time: all at once, a mask would hold every two of its positions."""
    pieces = []
    for number, piece in enumerate(x.split(size, 1)):
        own = None if lengths is None else (lengths - number * size).clamp(0, piece.shape[1])
        y, state = layer(piece, state, own)
        pieces.append(y)
    return torch.cat(pieces, 1), state
