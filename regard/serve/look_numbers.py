"""The numbers of a track as bytes for the page: thumbnails, one view in shades or in numbers, one row.

R rows · C columns
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.errors import SettingError
from regard.look import Look, Track
from regard.look.track import largest
from regard.look.views import join_words, row_spans, thumbnails, view, word_spans
from regard.serve.payload import pack, shade

MOST_CELLS = 4_000_000                       # numbers of one answer


def pack_atlas(look: Look, track: Track, size: int, pool: str) -> bytes:
    small = thumbnails(track.values, size, pool, track.signed)
    top = scale_of(track, small) if pool == "max" else largest(small)
    return pack({"layers": track.layers, "heads": track.heads, "pool": pool, "signed": track.signed,
                 "scales": {"atlas": top}}, atlas=shade(small.reshape(-1, *small.shape[2:]), top, track.signed))


def pack_map(look: Look, track: Track, layer: str, head: str, words: bool) -> bytes:
    values, about = read_view(look, track, layer, head, words)
    top = scale_of(track, values)
    return pack({**about, "scales": {"map": top}}, map=shade(values, top, track.signed))


def pack_cells(look: Look, track: Track, layer: str, head: str, words: bool) -> bytes:
    values, about = read_view(look, track, layer, head, words)
    if values.size > MOST_CELLS:
        raise SettingError(f"{values.shape[0]:,} rows of {values.shape[1]:,} are more than {MOST_CELLS:,} numbers: ask "
                           "for one row at a time")
    return pack({**about, "scales": {"cells": scale_of(track, values)}}, cells=values)


def pack_row(look: Look, track: Track, row: int) -> bytes:
    values = track.row(row)
    return pack({"row": row, "signed": track.signed, "scales": {"row": scale_of(track, values)}}, row=values)


def read_view(look: Look, track: Track, layer: str, head: str, words: bool) -> tuple[Any, dict[str, Any]]:
    """Return one view (R, C) and its header; by words, the header has the tokens of each row and column."""
    values: Any = view(track, layer, head)
    about: dict[str, Any] = {"layer": layer, "head": head, "signed": track.signed, "words": words}
    if words:
        rows, columns = row_spans(look, track), word_spans(look.sides[track.columns])
        values = join_words(values, rows, columns)
        about |= {"row_groups": rows, "column_groups": columns}
    return np.ascontiguousarray(values, np.float32), about


def scale_of(track: Track, shown: Any) -> float:
    """Return the amount drawn strongest: 1 for weights, so that maps compare, else the largest of those shown."""
    return 1.0 if track.kind in ("weights", "back-off") else largest(shown)


PACKERS: dict[str, Callable[..., bytes]] = {
    "atlas": pack_atlas, "map": pack_map, "cells": pack_cells, "row": pack_row}
