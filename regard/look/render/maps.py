"""Reading maps: who read whom. A row is a piece that was written, a column one that was read, and a weight how much.

    seen = Map(rows=["the", "black", "cat"], columns=["le", "chat", "noir"], weights=weights)
    seen.at(layer=1, head="max")                       # where there are layers and heads: another view of the same
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

from regard.errors import DataError
from regard.look.views import HEAD_POOLS, Pick, check_pick, describe_pick, pool_layers

Floats = NDArray[np.float64]
SLACK = 1e-3                              # by which a row of weights may miss its sum: half precision, rounded files


@dataclass(frozen=True, eq=False)
class Map:
    """Amounts that each row read of each column, their names, and the view that is drawn."""

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
                  "weights": _as_array(self.weights), "links": frozenset((int(r), int(c)) for r, c in self.links)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        _check(self)
        object.__setattr__(self, "layer", check_pick("layer", self.layer, self.layers, HEAD_POOLS))
        object.__setattr__(self, "head", check_pick("head", self.head, self.heads, HEAD_POOLS))

    @property
    def layers(self) -> int:
        return len(self.weights)

    @property
    def heads(self) -> int:
        return self.weights.shape[1]

    @property
    def shown(self) -> Floats:
        """(R, C): the weights in the chosen view."""
        return pool_layers(self.weights, self.layer, self.head)

    @property
    def counts_shares(self) -> bool:
        """True where an amount is a share of what a row read, between 0 and 1."""
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
        """Another view of the map: a layer and a head by number, or their mean or max."""
        return replace(self, layer=layer, head=head)

    def aligned(self, links: Iterable[tuple[int, int]]) -> Map:
        """With a gold alignment of (source word, target word) links, as `metrics.alignment` and Pharaoh files have."""
        return replace(self, links=frozenset((target, source) for source, target in links))

    def about_view(self) -> str:
        """`layer 2, max of 8 heads`; empty if there is only one of each."""
        parts = describe_pick("layer", self.layer, self.layers), describe_pick("head", self.head, self.heads)
        return ", ".join(filter(None, parts))

    def about_weights(self) -> str:
        """The meaning of an amount, in a line."""
        if not self.counts_shares:
            return f"{self.kind}: strongest at {'±' if self.signed else ''}{self.top:.3g}"
        each = "of a head " if self.layers * self.heads > 1 else ""
        least = float(self.weights.sum(-1).min(initial=1.0))
        if least >= 1 - 10 * SLACK:
            return f"weights: each row {each}sums to 1"
        return f"weights: each row {each}sums to {least:.2f} or more; the rest was read where nothing is shown"

    def _repr_svg_(self) -> str:
        """The picture that a notebook displays."""
        from regard.look.render.figure import picture

        return picture([self], "svg").decode()

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {"title": self.title, "row_title": self.row_title, "column_title": self.column_title, "kind": self.kind,
                "signed": self.signed, "layer": self.layer, "head": self.head, "rows": list(self.rows),
                "columns": list(self.columns), "links": sorted(map(list, self.links)), "weights": self.weights.tolist()}


# ------------------------------------------------------------------------------------------------ parts


def _as_array(weights: Any) -> Floats:
    if hasattr(weights, "detach"):                              # a tensor, on any device and of any precision
        weights = weights.detach().double().cpu().numpy()
    array = np.array(weights, dtype=np.float64)
    array.flags.writeable = False
    return array[(None,) * (4 - array.ndim)] if array.ndim in (2, 3) else array


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
