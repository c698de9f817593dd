"""What a look is made of: what was read and written, and how much each row read of each column.

    seen = look(model, Request(text="the cat sat"))
    seen.sides["text"].tokens                    # <bos> the cat sat
    seen.said[1]                                 # what the model says follows `the`: `cat`, with how many bits
    seen.track("self").values                    # float32 (N, H, R, C)

Rows are positions read, `<bos> w1 .. wn`: row t, having read up to there, predicts what follows. Layers and heads are
counted from 1, rows and columns from 0.   N layers · H heads · R rows · C columns
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.contract import Recorder
from regard.decoding.sampling import Sampling
from regard.errors import SettingError, did_you_mean

Floats = NDArray[np.float32]
NO_WORD = -1


@dataclass(frozen=True)
class Request:
    """What to look at: a text, a source with or without its target, or a picture."""

    text: str | None = None
    source: str | None = None
    target: str | None = None                # None: what the model itself writes, by beam search
    image: bytes | None = None               # a PNG or JPEG file
    new_tokens: int = 0                      # written by the model after `text`, before it is looked at
    sampling: Sampling | None = None         # how these are drawn; None: the likeliest each time
    beam: int = 5
    length_penalty: float = 1.0


@dataclass(frozen=True)
class Token:
    """A token of a side; `start` and `end` are characters of the side's text, -1 where it stands for none."""

    id: int
    piece: str
    start: int = -1
    end: int = -1
    special: bool = False
    word: int = NO_WORD                      # the number of its word; -1: it belongs to none

    def as_list(self) -> list[Any]:
        return [self.id, self.piece, self.start, self.end, self.special, self.word]


@dataclass(frozen=True)
class Side:
    """A sequence that is read or written: a text, or the patches of a picture from left to right and top to bottom."""

    name: str                                # text · source · target · image
    title: str
    text: str
    tokens: tuple[Token, ...]
    patches: tuple[int, int] | None = None   # rows and columns of patches
    width: int = 0                           # of the picture as it was given, in pixels
    height: int = 0
    png: bytes = b""                         # the picture as the model reads it
    original: bytes = b""                    # the picture as it was given, upright

    def as_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"name": self.name, "title": self.title, "text": self.text,
                                "tokens": [token.as_list() for token in self.tokens]}
        if self.patches is not None:
            told |= {"patches": list(self.patches), "width": self.width, "height": self.height}
        return told


@dataclass(frozen=True)
class Said:
    """What a row predicts: the token that does follow, or, where nothing does, the model's best guess."""

    id: int
    piece: str
    bits: float                              # of surprise; infinite for what the model holds to be impossible
    p: float
    rank: int                                # 1: the likeliest of all
    guess: bool = False

    def as_dict(self) -> dict[str, Any]:
        told = dataclasses.asdict(self)
        return told if math.isfinite(self.bits) else told | {"bits": None}


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
        """Whether the numbers have yet to be worked out, by the model: keep others off it meanwhile."""
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

    def row(self, at: int) -> Floats:
        """(N, H, C): what row `at` read, in every layer and head."""
        if not 0 <= at < self.shape[2]:
            raise SettingError(f"row = {at}: there are {self.shape[2]:,}, counted from 0")
        if self.held is not None:
            return self.held[:, :, at]
        if at not in self.made_rows:
            whole = (*self.shape[:2], self.shape[3])
            self.made_rows[at] = (as_floats(self.make_row(at), whole) if self.make_row is not None
                                  else self.values[:, :, at])
        return self.made_rows[at]

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


@dataclass(eq=False)
class Look:
    """One run of a model on one input, and everything that can be seen of it.

    `watched(closely)` does it once more and gives the readings; watched closely, they tell what they are made of.
    """

    request: Request
    family: str
    task: str
    sides: dict[str, Side]
    written: str                             # the name of the side whose tokens are predicted
    said: tuple[Said, ...]                   # one for each row of that side
    tracks: tuple[Track, ...]
    notes: tuple[str, ...] = ()
    in_place: bool = False                   # a row predicts the token in its own place, not the one that follows
    watched: Callable[..., Recorder] = field(repr=False, kw_only=True)
    id: str = ""
    model: str = ""

    def track(self, name: str) -> Track:
        for track in self.tracks:
            if track.name == name:
                return track
        raise SettingError(f"unknown track {name}{did_you_mean(name, [track.name for track in self.tracks])}")

    def nbytes(self) -> int:
        pictures = sum(len(side.png) + len(side.original) for side in self.sides.values())
        tokens = sum(200 * len(side.tokens) for side in self.sides.values())
        return pictures + tokens + sum(track.nbytes() for track in self.tracks)

    def as_dict(self) -> dict[str, Any]:
        """The look without its numbers, as JSON can hold it."""
        return {"id": self.id, "model": self.model, "task": self.task, "family": self.family,
                "sides": {name: side.as_dict() for name, side in self.sides.items()}, "written": self.written,
                "in_place": self.in_place, "said": [each.as_dict() for each in self.said],
                "tracks": [track.as_dict() for track in self.tracks], "notes": list(self.notes)}


def as_floats(values: Any, shape: Sequence[int]) -> Floats:
    """Numbers as they are kept, float32; of the shape that was promised."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    array = np.ascontiguousarray(values, np.float32).reshape(tuple(shape))
    return array


def largest(values: Floats) -> float:
    """The largest finite amount, whatever its sign; 1 where there is none."""
    high, low = values.max(initial=0.0), values.min(initial=0.0)
    found = max(float(high), -float(low))
    if not math.isfinite(found):
        found = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    return found or 1.0
