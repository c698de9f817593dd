"""A look drawn outside of the server: as a map for the terminal and for pictures, or saved in one HTML file.

    drawing = Drawing(look(model, "the cat sat"), track="self", layer=2)
    drawing.map()                                # a regard.look.render.maps.Map: render.show, render.save
    drawing.html()                               # the page of `regard serve`, with these numbers in it
    drawing.save("map.svg")                      # .html .svg .png .csv .npz .txt .json, by the file's ending
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import SettingError, did_you_mean
from regard.look import render
from regard.look.look import Look, LookSide
from regard.look.render import saved_page
from regard.look.render.files import write_form
from regard.look.render.maps import Map
from regard.look.render.painting import sheet
from regard.look.render.saved_page import Saved
from regard.look.track import Floats, Track
from regard.look.views import (
    HEAD_POOLS,
    LAYER_POOLS,
    Pick,
    check_pick,
    describe_pick,
    join_words,
    pool_layers,
    row_spans,
    statistics,
    view,
    word_spans,
)

INFLUENCE = "influence"                      # the beginning of a track's name by the way it was asked


@dataclass(frozen=True)
class Drawing:
    """One view of a look: a track, a layer and a head by number or put together, by tokens or by words."""

    look: Look
    track: str = ""                          # "": the first
    layer: Pick = "mean"
    head: Pick = "mean"
    row: int | None = None                   # the row told of; None: the last
    words: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        own = self.look.track(self.track) if self.track else self.look.tracks[0]
        object.__setattr__(self, "track", own.name)
        object.__setattr__(self, "layer", check_pick("layer", self.layer, own.layers, LAYER_POOLS))
        object.__setattr__(self, "head", check_pick("head", self.head, own.heads, HEAD_POOLS))
        if self.row is not None and not 0 <= self.row < own.shape[2]:
            raise SettingError(f"row = {self.row}: there are {own.shape[2]:,}, counted from 0")

    @property
    def chosen(self) -> Track:
        return self.look.track(self.track)

    # ---------------------------------------------------------------------------------------- as numbers

    def values(self) -> Floats:
        """(R, C): the view."""
        own = self.chosen
        whole = view(own, self.layer, self.head)
        columns = word_spans(self.look.sides[own.columns])
        return join_words(whole, row_spans(self.look, own), columns) if self.words else whole

    def row_names(self) -> list[str]:
        """Rows are named by the token they read, or by the one they write."""
        side, own = self.look.sides[self.chosen.rows], self.chosen
        names = [token.piece for token in side.tokens]
        if own.row_label == "writes" and own.rows == self.look.written:
            names = [said.piece for said in self.look.predictions]
        return joined(names, row_spans(self.look, own)) if self.words else names

    def column_names(self) -> list[str]:
        side = self.look.sides[self.chosen.columns]
        names = [token.piece for token in side.tokens]
        return joined(names, word_spans(side)) if self.words else names

    # ---------------------------------------------------------------------------------------- as a map

    def map(self) -> Map:
        """The view, as a map that can be drawn anywhere."""
        track = self.chosen
        return Map(
            [name.strip(" ") or name for name in self.row_names()],
            [name.strip(" ") or name for name in self.column_names()],
            self.values().astype(np.float64), title=self.title(),
            row_title=self.look.sides[track.rows].title, column_title=self.look.sides[track.columns].title,
            kind=self.amount(), signed=track.signed)

    def amount(self) -> str:
        """The kind of the amounts in view. The largest of several weights is no share: a row may sum to more than 1."""
        pooled = "max" in (self.layer, self.head) and self.chosen.kind == "weights"
        return "largest weight" if pooled else self.chosen.kind

    def title(self) -> str:
        own = self.chosen
        parts = (self.name, own.name, describe_pick("layer", self.layer, own.layers),
                 describe_pick("head", self.head, own.heads))
        return " · ".join(filter(None, parts))

    # --------------------------------------------------------------------------------------- as a page

    def html(self, title: str = "") -> str:
        """The page that is served, in one file: this track, and the others as far as there is room."""
        return saved_page.saved_page([self.saved()], title or self.name or self.title())

    def saved(self) -> Saved:
        tracks = {self.track: self.chosen}
        first: dict[str, Any] = {"track": self.track, "layer": str(self.layer), "head": str(self.head)}
        room = saved_page.MOST_NUMBERS - int(np.prod(self.chosen.shape))
        if room < 0:                                              # too much of it: only what is in view
            tracks = {self.track: self._only_view()}
            first |= {"layer": "1", "head": "1"}
            room = saved_page.MOST_NUMBERS - int(np.prod(tracks[self.track].shape))
        for other in self.look.tracks:
            if other.name not in tracks and not other.lazy and int(np.prod(other.shape)) <= room:
                tracks[other.name] = other
                room -= int(np.prod(other.shape))
        description = self.look.as_dict()
        shown = [tracks[each.name] for each in self.look.tracks if each.name in tracks]
        description["tracks"] = [{**each.as_dict(), "top": each.top, "lazy": False, "row_by_row": False,
                                  "stats": statistics(each)} for each in shown]
        numbers = {name: np.asarray(own.values, np.float32) for name, own in tracks.items()}
        picture = next((side.png for side in self.look.sides.values() if side.png), b"")
        chosen = {"row": self.row, "words": "1" if self.words else None}
        first |= {name: value for name, value in chosen.items() if value is not None}
        return Saved(self.name or self.look.model or self.look.family, self.look.family, description, numbers, picture,
                     first)

    def _only_view(self) -> Track:
        own, values = self.chosen, view(self.chosen, self.layer, self.head)
        return Track(
            own.name, own.kind, own.badge, f"{own.about} Only this view is in the file: {self.title()}.", own.rows,
            own.columns, (1, 1, *values.shape), own.row_label, own.causal, own.signed, held=values[None, None])

    # -------------------------------------------------------------------------------------- in a file

    def save(self, path: str | Path) -> Path:
        """Write it in the form that the file's ending names."""
        return write_form(path, FORMS, self, "a look can be written as")


# -------------------------------------------------------------------------------------------------- forms


def as_csv(drawing: Drawing) -> str:
    """All numbers of the view, with the names of columns in the first line and of rows in the first column."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(["", *drawing.column_names()])
    for name, row in zip(drawing.row_names(), drawing.values(), strict=True):
        lines.writerow([name, *(str(value) for value in row)])
    return written.getvalue()


def as_npz(drawing: Drawing) -> bytes:
    """All layers and heads of the track, and the names."""
    written = io.BytesIO()
    np.savez_compressed(written, values=drawing.chosen.values, view=drawing.values(),
                        rows=np.array(drawing.row_names()), columns=np.array(drawing.column_names()))
    return written.getvalue()


def as_picture(drawing: Drawing, form: str) -> bytes | str:
    """A map; of a captioner that reads patches, the picture painted once for each word."""
    side = drawing.look.sides[drawing.chosen.columns]
    if side.patches is None:
        return render.FORMS[f".{form}"]([drawing.map()])
    seen = drawing.values().reshape(-1, *side.patches)
    words = tuple(drawing.row_names())
    return sheet(pixels(side), np.abs(seen), words, drawing.look.sides["target"].text, form)


def pixels(side: LookSide) -> Any:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(side.png)).convert("RGB"))


FORMS: dict[str, Callable[[Drawing], bytes | str]] = {
    ".html": lambda drawing: drawing.html(),
    ".svg": lambda drawing: as_picture(drawing, "svg"),
    ".png": lambda drawing: as_picture(drawing, "png"),
    ".csv": as_csv,
    ".npz": as_npz,
    ".txt": lambda drawing: render.FORMS[".txt"]([drawing.map()]),
    ".json": lambda drawing: render.FORMS[".json"]([drawing.map()]),
}


def influence_track(look: Look, how: str) -> str:
    """The name of the track that tells the influence asked for; of a translator that on the source."""
    found = [own.name for own in look.tracks if own.kind == INFLUENCE and own.name.endswith(f"-{how}")]
    if not found:
        ways = sorted({own.name.rpartition("-")[2] for own in look.tracks if own.kind == INFLUENCE})
        raise SettingError(f"influence = {how}{did_you_mean(how, ways)}")
    return found[0]


def top_of_row(drawing: Drawing, count: int = 10) -> list[tuple[str, float]]:
    """The columns that the row reads most, with how much."""
    own, row = drawing.chosen, drawing.chosen.shape[2] - 1 if drawing.row is None else drawing.row
    if own.row_by_row:
        values = pool_layers(own.row(row)[:, :, None], drawing.layer, drawing.head)[0]
        names = [token.piece for token in drawing.look.sides[own.columns].tokens]
    else:
        spans = row_spans(drawing.look, own) if drawing.words else [(at, at + 1) for at in range(own.shape[2])]
        place = next(place for place, (first, last) in enumerate(spans) if first <= row < last)
        values, names = drawing.values()[place], drawing.column_names()
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return [(names[at], float(values[at])) for at in order]


def joined(names: list[str], spans: list[tuple[int, int]]) -> list[str]:
    return ["".join(names[first:last]) for first, last in spans]
