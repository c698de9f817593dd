"""A look: one run of a trained model on one input, whatever its family or task, and everything that can be seen of it.

    seen = look(regard.load("runs/stories"), Request(text="the cat sat"))
    seen.sides["text"].tokens                    # <bos> the cat sat
    seen.predictions[1]                          # what the model says follows `the`: `cat`, with how many bits
    seen.track("self").values                    # float32 (N, H, R, C): weights of every layer and head
    seen.track("influence-gradient").values      # computed now, when first asked for

Rows are positions read, `<bos> w1 .. wn`: row t, having read up to there, predicts what follows. Layers and heads are
counted from 1, rows and columns from 0.   N layers · H heads · R rows · C columns
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from regard.decoding.sampling import Sampling
from regard.errors import SettingError, did_you_mean
from regard.look.track import Track
from regard.watching import Recorder

NO_WORD = -1
SAMPLE = 2**14                       # bytes of each tensor that its identity is made from


@dataclass(frozen=True)
class Request:
    """The input of a look: a text, a source with or without its target, or a picture."""

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
class LookSide:
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
class Prediction:
    """The prediction of a row: of the token that does follow, or, where nothing does, the model's best guess."""

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
class Look:
    """One run of a model on one input, and everything that can be seen of it.

    `watched(closely)` does it once more and gives the readings; watched closely, they tell what they are made of.
    """

    request: Request
    family: str
    task: str
    sides: dict[str, LookSide]
    written: str                             # the name of the side whose tokens are predicted
    predictions: tuple[Prediction, ...]      # one for each row of that side
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
                "in_place": self.in_place, "said": [each.as_dict() for each in self.predictions],
                "tracks": [track.as_dict() for track in self.tracks], "notes": list(self.notes)}


def look(trained: Any, request: Request | str, model: str = "", id: str = "") -> Look:
    """Run a model once and return what it reads and says; a plain string is a text, or the source of a translator.

    `model` is the name under which a server keeps it, `id` the look's own where it is known already. Whoever shares the
    model keeps others off it meanwhile, and while a track that is still `lazy` is worked out.
    """
    task = trained.task
    if isinstance(request, str):
        request = Request(text=request) if task.card.reads == "text" else Request(source=request)
    seen = task.look(trained, request)
    seen.id, seen.model = id or look_id(trained, request, model), model
    return seen


def look_id(trained: Any, request: Request, model: str = "") -> str:
    """A hash of the request and the weights: equal on any day and any machine."""
    asked = asdict(request)
    if request.image is not None:
        asked["image"] = hashlib.sha256(request.image).hexdigest()
    told = json.dumps([model, identity(trained), asked], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def identity(trained: Any) -> str:
    """A name for the weights and the tokenizer: from a part of every tensor, as no training leaves one as it was."""
    known = trained.__dict__.get("_identity")
    if known is None:
        digest = hashlib.sha256(trained.tokenizer.digest().encode())
        for name, tensor in trained.model.saved_tensors().items():
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            part = tensor.detach().flatten()[:SAMPLE // tensor.element_size()].cpu()
            part = part.clone(memory_format=torch.contiguous_format)
            digest.update(part.view(torch.uint8).numpy().tobytes())
        known = trained.__dict__["_identity"] = digest.hexdigest()
    return known
