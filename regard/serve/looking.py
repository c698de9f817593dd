"""The numbers of looks, as the routes of looks.py send them: made in worker threads, where torch may be loaded.

R rows · C columns
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.decoding.sampling import Sampling
from regard.errors import SettingError
from regard.look import Look, Request, Track, look
from regard.look.look import look_id
from regard.look.parts import largest
from regard.look.pools import by_words, groups, row_groups, statistics, thumbnails, view
from regard.serve.looks import Held, LookAt, Looks, picture
from regard.serve.payload import pack, shaded
from regard.serve.registry import Opened

MOST_CELLS = 4_000_000                       # numbers of one answer


def looked(looks: Looks, opened: Opened, asked: LookAt) -> Held:
    """The look that was asked for: made now, unless it is held."""
    trained, wanted = opened.trained, request_of(asked)
    id = look_id(trained, wanted, opened.id)
    found = looks.find(id)
    if found is None:
        with opened.lock:
            found = looks.find(id)                               # somebody may have asked for the same meanwhile
            made = look(trained, wanted, opened.id) if found is None else found.look
        if found is None:
            found = Held(made, opened, told(made, asked))
            looks.put(found)
    return found


def request_of(asked: LookAt) -> Request:
    how = Sampling(**asked.sampling.model_dump()) if asked.sampling is not None else None
    return Request(asked.text, asked.source, asked.target, picture(asked.image), asked.new_tokens, how, asked.beam,
                   asked.length_penalty)


def told(made: Look, asked: LookAt) -> dict[str, Any]:
    """The look without its numbers, with what each head is like, and with the request, to ask for it again."""
    answer = made.as_dict()
    for track, about in zip(made.tracks, answer["tracks"], strict=True):
        about["stats"] = None if track.lazy else statistics(track)
    return {**answer, "request": asked.model_dump(exclude_unset=True)}


def atlas(look: Look, track: Track, size: int, pool: str) -> bytes:
    small = thumbnails(track.values, size, pool, track.signed)
    top = top_of(track, small) if pool == "max" else largest(small)
    return pack({"layers": track.layers, "heads": track.heads, "pool": pool, "signed": track.signed,
                 "scales": {"atlas": top}}, atlas=shaded(small.reshape(-1, *small.shape[2:]), top, track.signed))


def whole_map(look: Look, track: Track, layer: str, head: str, words: bool) -> bytes:
    values, about = viewed(look, track, layer, head, words)
    top = top_of(track, values)
    return pack({**about, "scales": {"map": top}}, map=shaded(values, top, track.signed))


def cells(look: Look, track: Track, layer: str, head: str, words: bool) -> bytes:
    values, about = viewed(look, track, layer, head, words)
    if values.size > MOST_CELLS:
        raise SettingError(f"{values.shape[0]:,} rows of {values.shape[1]:,} are more than {MOST_CELLS:,} numbers: ask "
                           "for one row at a time")
    return pack({**about, "scales": {"cells": top_of(track, values)}}, cells=values)


def one_row(look: Look, track: Track, row: int) -> bytes:
    values = track.row(row)
    return pack({"row": row, "signed": track.signed, "scales": {"row": top_of(track, values)}}, row=values)


def viewed(look: Look, track: Track, layer: str, head: str, words: bool) -> tuple[Any, dict[str, Any]]:
    """(R, C), and for words which tokens each of its rows and columns is made of."""
    values: Any = view(track, layer, head)
    about: dict[str, Any] = {"layer": layer, "head": head, "signed": track.signed, "words": words}
    if words:
        rows, columns = row_groups(look, track), groups(look.sides[track.columns])
        values = by_words(values, rows, columns)
        about |= {"row_groups": rows, "column_groups": columns}
    return np.ascontiguousarray(values, np.float32), about


def top_of(track: Track, shown: Any) -> float:
    """The amount drawn strongest: 1 for weights, so that maps compare, else the largest of those shown."""
    return 1.0 if track.kind in ("weights", "back-off") else largest(shown)


MAKERS: dict[str, Callable[..., bytes]] = {"atlas": atlas, "map": whole_map, "cells": cells, "row": one_row}
