"""Reading maps: who read whom. A row is a piece that was written, a column one that was read, and a weight how much.

    seen = Map(rows=["the", "black", "cat"], columns=["le", "chat", "noir"], weights=weights)
    seen.at(layer=1, head="max")                       # where there are layers and heads: another view of the same
    by_words(seen, [0, 1, 1], [0, 1, 2])               # pieces put together into words
    render.save(seen, "cat.html")

Layers and heads are counted from 1, as in tables of error rates; rows and columns from 0, as in Pharaoh format.
R rows · C columns · N layers · H heads
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError, SettingError, did_you_mean

Floats = NDArray[np.float64]
Pick = int | str                          # a layer or a head by its number, or all of them put together
POOLS = ("mean", "max")
SLACK = 1e-3                              # by which a row of weights may miss its sum: half precision, rounded files


@dataclass(frozen=True, eq=False)
class Map:
    """How much each row read of each column, with their names and how to look at it."""

    rows: Sequence[str]                   # the readers: pieces of the target
    columns: Sequence[str]                # the read: pieces of the source
    weights: Floats                       # (N, H, R, C), or (H, R, C) or (R, C); tensors and lists are taken too
    title: str = ""
    row_title: str = "target"
    column_title: str = "source"
    kind: str = "weights"                 # as in a Reading; rows of plain weights sum to 1, or less if some are hidden
    signed: bool = False                  # amounts may be negative: an influence, the kernel of a state space
    links: frozenset[tuple[int, int]] = frozenset()           # (row, column): a gold alignment, drawn as outlines
    layer: Pick = "mean"
    head: Pick = "mean"

    def __post_init__(self) -> None:
        values = {"rows": tuple(map(str, self.rows)), "columns": tuple(map(str, self.columns)),
                  "weights": _as_array(self.weights), "links": frozenset((int(r), int(c)) for r, c in self.links),
                  "layer": _as_pick(self.layer), "head": _as_pick(self.head)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        _check(self)

    @property
    def layers(self) -> int:
        return len(self.weights)

    @property
    def heads(self) -> int:
        return self.weights.shape[1]

    @property
    def shown(self) -> Floats:
        """(R, C): the weights in the chosen view."""
        return pooled(pooled(self.weights, self.head, 1), self.layer, 0)

    @property
    def counts_shares(self) -> bool:
        """Whether an amount is a share of what a row read, between 0 and 1."""
        return self.kind == "weights" and not self.signed

    @property
    def top(self) -> float:
        """The amount drawn strongest: 1 for plain weights, so that maps compare, else the largest there is."""
        if self.counts_shares:
            return 1.0
        return float(np.abs(self.weights).max(initial=0.0)) or 1.0

    @property
    def shades(self) -> Floats:
        """(R, C) from -1 to 1, by square roots: a weight of 0.01 among a hundred can still be seen."""
        share = self.shown / self.top
        return np.sign(share) * np.sqrt(np.abs(share).clip(max=1.0))

    def at(self, layer: Pick = "mean", head: Pick = "mean") -> Map:
        """The same map in another view: a layer and a head by number, or their mean or max."""
        return replace(self, layer=layer, head=head)

    def aligned(self, links: Iterable[tuple[int, int]]) -> Map:
        """With a gold alignment of (source word, target word) links, as `metrics.alignment` and Pharaoh files have."""
        return replace(self, links=frozenset((target, source) for source, target in links))

    def about_view(self) -> str:
        """`layer 2, max of 8 heads`; empty if there is only one of each."""
        parts = [_told(name, picked, count)
                 for name, picked, count in (("layer", self.layer, self.layers), ("head", self.head, self.heads))]
        return ", ".join(part for part in parts if part)

    def about_weights(self) -> str:
        """What an amount means, in a line."""
        if not self.counts_shares:
            return f"{self.kind}: strongest at {'±' if self.signed else ''}{self.top:.3g}"
        each = "of a head " if self.layers * self.heads > 1 else ""
        least = float(self.weights.sum(-1).min(initial=1.0))
        if least >= 1 - 10 * SLACK:
            return f"weights: each row {each}sums to 1"
        return f"weights: each row {each}sums to {least:.2f} or more; the rest was read where nothing is shown"

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {"title": self.title, "row_title": self.row_title, "column_title": self.column_title, "kind": self.kind,
                "signed": self.signed, "layer": self.layer, "head": self.head, "rows": list(self.rows),
                "columns": list(self.columns), "links": sorted(map(list, self.links)), "weights": self.weights.tolist()}


def pooled(weights: Floats, pick: Pick, axis: int) -> Floats:
    """One of the slices along an axis, or their mean, or the largest of them, which keeps its sign."""
    if not isinstance(pick, str):
        return np.asarray(weights.take(pick - 1, axis))
    if pick == "mean":
        return np.asarray(weights.mean(axis))
    largest = np.expand_dims(np.abs(weights).argmax(axis), axis)
    return np.take_along_axis(weights, largest, axis).squeeze(axis)


def by_words(
    seen: Map, row_words: Sequence[int], column_words: Sequence[int], *,
    rows: Sequence[str] | None = None, columns: Sequence[str] | None = None,
) -> Map:
    """Pieces put together into words: a word read what its pieces read on average, and was read as much as all its
    pieces together. `row_words[r]` is the word of piece r, -1 if it belongs to none (<eos>): such pieces are left out.
    Words are named by their pieces in a row unless `rows` and `columns` say otherwise."""
    for name, words, pieces in (("row_words", row_words, seen.rows), ("column_words", column_words, seen.columns)):
        if len(words) != len(pieces):
            raise DataError(f"{name} has {len(words)} entries for {len(pieces)} pieces: give the word of each piece")
    rows = rows if rows is not None else _joined(seen.rows, row_words)
    columns = columns if columns is not None else _joined(seen.columns, column_words)
    links = frozenset((row_words[r], column_words[c]) for r, c in seen.links)
    return replace(seen, rows=rows, columns=columns, weights=_word_weights(seen, row_words, column_words),
                   links=frozenset(link for link in links if min(link) >= 0))


# ------------------------------------------------------------------------------------------------ parts


def _word_weights(seen: Map, row_words: Sequence[int], column_words: Sequence[int]) -> Floats:
    import torch

    from regard.metrics.alignment import word_weights

    if not seen.rows or not seen.columns:
        return np.zeros((*seen.weights.shape[:2], max(row_words, default=-1) + 1, max(column_words, default=-1) + 1))
    every = torch.from_numpy(np.array(seen.weights)).flatten(0, 1)                    # (N H, R, C)
    words = torch.stack([word_weights(one, column_words, row_words) for one in every])
    return words.unflatten(0, seen.weights.shape[:2]).numpy()


def _joined(pieces: Sequence[str], words: Sequence[int]) -> list[str]:
    named = [""] * (max(words, default=-1) + 1)
    for piece, word in zip(pieces, words, strict=True):
        if word >= 0:
            named[word] += piece
    return named


def _as_array(weights: Any) -> Floats:
    if hasattr(weights, "detach"):                              # a tensor, on any device and of any precision
        weights = weights.detach().double().cpu().numpy()
    array = np.array(weights, dtype=np.float64)
    array.flags.writeable = False
    return array[(None,) * (4 - array.ndim)] if array.ndim in (2, 3) else array


def _as_pick(pick: Pick) -> Pick:
    return int(pick) if str(pick).isdecimal() else pick


def _told(name: str, picked: Pick, count: int) -> str:
    if count == 1:
        return ""
    return f"{name} {picked}" if isinstance(picked, int) else f"{picked} of {count} {name}s"


def _check(seen: Map) -> None:
    shape, wanted = seen.weights.shape, (len(seen.rows), len(seen.columns))
    if seen.weights.ndim != 4 or shape[2:] != wanted or 0 in shape[:2]:
        given = shape[2:] if shape[:2] == (1, 1) else shape
        raise DataError(f"weights of shape {given} for {wanted[0]} rows and {wanted[1]} columns: give {wanted}, "
                        f"or (layers, heads, {wanted[0]}, {wanted[1]})")
    if not np.isfinite(seen.weights).all():
        raise DataError("some weights are infinite or no number: there is nothing to draw there")
    if not seen.signed and seen.weights.min(initial=0.0) < 0:
        raise DataError(f"the least weight is {seen.weights.min():.3g}: say signed=True if below zero is meant")
    most = float(seen.weights.sum(-1).max(initial=0.0))
    if seen.counts_shares and most > 1 + 10 * SLACK:
        raise DataError(f"a row of weights sums to {most:.3g}, more than 1: say which kind of amount it is (kind=...)")
    for row, column in seen.links:
        if not (0 <= row < wanted[0] and 0 <= column < wanted[1]):
            raise DataError(f"link ({row}, {column}) is outside of {wanted[0]} rows and {wanted[1]} columns")
    _check_pick("layer", seen.layer, seen.layers)
    _check_pick("head", seen.head, seen.heads)


def _check_pick(name: str, pick: Pick, count: int) -> None:
    if isinstance(pick, str):
        if pick not in POOLS:
            raise SettingError(f"{name} = {pick!r}{did_you_mean(pick, POOLS)}")
    elif not 1 <= pick <= count:
        raise SettingError(f"{name} = {pick}: there are {count}, counted from 1; or one of {', '.join(POOLS)}")
