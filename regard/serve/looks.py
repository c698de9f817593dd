"""Looks over HTTP: a look is asked for once, and its numbers then by its id, each time as few as the page draws.

    POST /api/look                                     everything but the numbers
    GET  /api/look/{id}                                the same again, of a look that is still held
    GET  /api/look/{id}/{track}/atlas                  all layers and heads as thumbnails
    GET  /api/look/{id}/{track}/map                    one view, in shades
    GET  /api/look/{id}/{track}/cells                  one view, in numbers
    GET  /api/look/{id}/{track}/row                    one row of every layer and head, in numbers
    GET  /api/look/{id}/image.png                      the picture of a captioner

Looks are held until newer ones take their room. The id is a hash of what was asked of which weights, so that asking
again, after a restart too, gives the same one.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from regard.errors import DataError
from regard.serve.limits import BEAM, CHARACTERS, gate, run
from regard.serve.payload import MEDIA_TYPE
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened

if TYPE_CHECKING:
    from regard.look import Look

ROOM = 512 * 2**20                           # bytes of looks that are held
MOST_IMAGE = 1_400_000                       # characters of a picture in base64: 1 MB

router = APIRouter(prefix="/api/look", tags=["looking"])


# ------------------------------------------------------------------------------------------- what is asked


class Draw(BaseModel):
    """How new tokens are drawn."""

    model_config = ConfigDict(extra="forbid")

    temperature: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**53)] = 0


class LookAt(BaseModel):
    """What to look at: a text, a source (and a target), or a picture (and a caption)."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[str, Field(max_length=200)]
    text: Annotated[str, Field(max_length=CHARACTERS)] | None = None
    source: Annotated[str, Field(max_length=CHARACTERS)] | None = None
    target: Annotated[str, Field(max_length=CHARACTERS)] | None = None
    image: Annotated[str, Field(max_length=MOST_IMAGE, description="PNG or JPEG in base64, or an example by name: "
                                "shapes-1 .. shapes-9999")] | None = None
    new_tokens: Annotated[int, Field(ge=0, le=256)] = 0
    sampling: Draw | None = None
    beam: Annotated[int, Field(ge=1, le=BEAM)] = 5
    length_penalty: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 1.0


LookId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
TrackName = Annotated[str, Path(pattern="^[a-z0-9-]{1,40}$")]
LayerPick = Annotated[str, Query(pattern="^([1-9][0-9]{0,3}|mean|max|rollout)$")]
HeadPick = Annotated[str, Query(pattern="^([1-9][0-9]{0,3}|mean|max)$")]
BINARY: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}, "description": "numbers"}}
PNG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}, "description": "a picture"}}


def picture(image: str | None) -> bytes | None:
    """The bytes of a picture, by its name or from base64, with or without the beginning that browsers put before it."""
    from regard.look.picture import example_picture

    if image is None:
        return None
    example = example_picture(image)
    if example is not None:
        return example
    data = image.partition(",")[2] if image.startswith("data:") else image
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("the image is neither an example nor base64: send a PNG or JPEG file in base64") from None


# --------------------------------------------------------------------------------------------- what is held


@dataclass(eq=False)
class Held:
    """A look, the model it is of, and what was told of it."""

    look: Look
    opened: Opened
    told: dict[str, Any]

    def nbytes(self) -> int:
        return self.look.nbytes() + 4096


@dataclass
class Looks:
    """The looks of late, as many as there is room for; the one just made is always held."""

    room: int = ROOM
    held: OrderedDict[str, Held] = field(default_factory=OrderedDict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def find(self, id: str) -> Held | None:
        with self.guard:
            if id in self.held:
                self.held.move_to_end(id)
            return self.held.get(id)

    def get(self, id: str) -> Held:
        found = self.find(id)
        if found is None:
            raise Refusal(404, "this look is no longer held: ask for it again", param="id", code="look_gone")
        return found

    def put(self, held: Held) -> None:
        with self.guard:
            self.held[held.look.id] = held
            self.held.move_to_end(held.look.id)
        self.trim()

    def trim(self) -> None:
        """Lets go of the oldest while there is too much; tracks grow when they are worked out."""
        with self.guard:
            while len(self.held) > 1 and self.nbytes() > self.room:
                self.held.popitem(last=False)

    def nbytes(self) -> int:
        return sum(each.nbytes() for each in self.held.values())


def looks_of(request: Request) -> Looks:
    state = request.app.state
    if not hasattr(state, "looks"):
        state.looks = Looks()
    return state.looks


# --------------------------------------------------------------------------------------------------- routes


@router.post("")
async def post_look(request: Request, asked: LookAt) -> dict[str, Any]:
    """Runs the model once on what is given, and tells everything but the numbers."""
    opened, looks = request.app.state.registry.get(asked.model), looks_of(request)
    async with gate(request):
        return (await run(looked, looks, opened, asked)).told


@router.get("/{id}")
async def get_look(request: Request, id: LookId) -> dict[str, Any]:
    """What was told of a look that is still held."""
    return looks_of(request).get(id).told


@router.get("/{id}/image.png", responses=PNG, response_class=Response)
async def get_image(request: Request, id: LookId, which: Literal["read", "original"] = "read") -> Response:
    """The picture as the model reads it, or as it was given."""
    for side in looks_of(request).get(id).look.sides.values():
        if side.png:
            return Response(side.png if which == "read" else side.original, media_type="image/png")
    raise Refusal(404, "this look has no picture")


@router.get("/{id}/{track}/atlas", responses=BINARY, response_class=Response)
async def get_atlas(
    request: Request, id: LookId, track: TrackName, size: Annotated[int, Query(ge=1, le=256)] = 64,
    pool: Literal["max", "sum"] = "max",
) -> Response:
    """Every layer and head as a thumbnail of at most `size` rows and columns, in shades."""
    return await numbers(request, id, track, "atlas", size, pool)


@router.get("/{id}/{track}/map", responses=BINARY, response_class=Response)
async def get_map(
    request: Request, id: LookId, track: TrackName, layer: LayerPick = "mean", head: HeadPick = "mean",
    words: bool = False,
) -> Response:
    """One view of all rows and columns, in shades: uint8, or int8 where amounts have a sign."""
    return await numbers(request, id, track, "map", layer, head, words)


@router.get("/{id}/{track}/cells", responses=BINARY, response_class=Response)
async def get_cells(
    request: Request, id: LookId, track: TrackName, layer: LayerPick = "mean", head: HeadPick = "mean",
    words: bool = False,
) -> Response:
    """One view of all rows and columns, as float32, of at most 4,000,000 numbers."""
    return await numbers(request, id, track, "cells", layer, head, words)


@router.get("/{id}/{track}/row", responses=BINARY, response_class=Response)
async def get_row(
    request: Request, id: LookId, track: TrackName, row: Annotated[int, Query(ge=0, lt=2**31)],
) -> Response:
    """One row of every layer and head, as float32 (layers, heads, columns)."""
    return await numbers(request, id, track, "row", row)


# ------------------------------------------------------------------------------------- in worker threads


def looked(looks: Looks, opened: Opened, asked: LookAt) -> Held:
    from regard.serve import looking

    return looking.looked(looks, opened, asked)


async def numbers(request: Request, id: str, name: str, kind: str, *how: Any) -> Response:
    """Numbers of a track, of one of these kinds; the model is kept from others while it works on them."""
    looks = looks_of(request)
    held = looks.get(id)
    if name not in [track.name for track in held.look.tracks]:
        raise Refusal(404, f"this look has no track {name}", param="track", code="track_unknown")

    def made() -> bytes:
        from regard.serve.looking import MAKERS

        track = held.look.track(name)
        if not track.lazy:
            return MAKERS[kind](held.look, track, *how)
        with held.opened.lock:
            answer = MAKERS[kind](held.look, track, *how)
        looks.trim()
        return answer

    async with gate(request):
        return Response(await run(made), media_type=MEDIA_TYPE)
