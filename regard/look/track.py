"""A track: one kind of amount, of each row on each column, for every layer and head of a model.

Layers and heads are counted from 1, rows and columns from 0.   N layers · H heads · R rows · C columns
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import SettingError

Floats = NDArray[np.float32]


@dataclass(eq=False)
class Track:
    """One kind of amount, of each row on each column, for every layer and head."""

    name: str                                # self · cross · encoder · patches · kernel · source-gradient ...
    kind: str                                # weights · kernel · back-off · influence
    badge: str                               # a few words for people: what kind of amount it is
    about: str                               # a sentence
    rows: str                                # the name of a side
    columns: str
    shape: tuple[int, int, int, int]
    row_label: str = "read"                  # a row is named by the token it read, or by the one it "writes"
    causal: bool = False
    signed: bool = False
    layer_names: tuple[str, ...] = ("",)
    head_names: tuple[str, ...] = ("",)
    held: Floats | None = None               # (N, H, R, C); None: not worked out yet
    make: Callable[[], Floats] | None = None             # works all of them out
    make_row: Callable[[int], Floats] | None = None      # (N, H, C) of one row
    most: int = 300                          # rows that `make` is asked for at once; of more, one at a time
    places: tuple[int, ...] = ()             # where each layer stands among the readings of the watched run
    details: Mapping[str, Any] = field(default_factory=dict)     # what else was recorded (an n-gram: its path)
    made_rows: dict[int, Floats] = field(default_factory=dict, repr=False)

    @property
    def lazy(self) -> bool:
        """True until the model has computed the numbers: keep others off it meanwhile."""
        return self.held is None

    @property
    def row_by_row(self) -> bool:
        return self.held is None and self.shape[2] > self.most

    @property
    def layers(self) -> int:
        return self.shape[0]

    @property
    def heads(self) -> int:
        return self.shape[1]

    @property
    def values(self) -> Floats:
        """(N, H, R, C); worked out when first asked for."""
        if self.held is None:
            if self.row_by_row:
                raise SettingError(f"{self.name} of {self.shape[2]:,} rows would take long: ask for one row at a time")
            assert self.make is not None, f"{self.name} has neither numbers nor a way to make them"
            self.held = as_floats(self.make(), self.shape)
            self.made_rows.clear()
        return self.held

    def row(self, number: int) -> Floats:
        """(N, H, C): what row `at` read, in every layer and head."""
        if not 0 <= number < self.shape[2]:
            raise SettingError(f"row = {number}: there are {self.shape[2]:,}, counted from 0")
        if self.held is not None:
            return self.held[:, :, number]
        if number not in self.made_rows:
            whole = (*self.shape[:2], self.shape[3])
            self.made_rows[number] = (as_floats(self.make_row(number), whole) if self.make_row is not None
                                  else self.values[:, :, number])
        return self.made_rows[number]

    @property
    def top(self) -> float | None:
        """The amount drawn strongest: 1 for weights, so that maps compare, else the largest; None: not known yet."""
        if self.kind in ("weights", "back-off"):
            return 1.0
        return None if self.held is None else largest(self.held)

    def nbytes(self) -> int:
        held = 0 if self.held is None else self.held.nbytes
        details = sum(getattr(each, "nbytes", 0) for each in self.details.values())
        return held + details + sum(row.nbytes for row in self.made_rows.values())

    def as_dict(self) -> dict[str, Any]:
        """Everything but the numbers."""
        return {"name": self.name, "kind": self.kind, "badge": self.badge, "about": self.about, "rows": self.rows,
                "columns": self.columns, "row_label": self.row_label, "causal": self.causal, "signed": self.signed,
                "layers": self.layers, "heads": self.heads, "shape": list(self.shape),
                "layer_names": list(self.layer_names), "head_names": list(self.head_names), "top": self.top,
                "lazy": self.lazy, "row_by_row": self.row_by_row}


def as_floats(values: Any, shape: Sequence[int]) -> Floats:
    """Numbers as they are kept, float32; of the shape that was promised."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    return np.ascontiguousarray(values, np.float32).reshape(tuple(shape))


def largest(values: Floats) -> float:
    """The largest finite amount, whatever its sign; 1 where there is none."""
    high, low = values.max(initial=0.0), values.min(initial=0.0)
    found = max(float(high), -float(low))
    if not math.isfinite(found):
        found = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    return found or 1.0
