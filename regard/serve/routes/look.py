"""Looks over HTTP: a look is asked for once, and its numbers then by its id, each time as few as the page draws.

    POST /api/look                                     everything but the numbers
    GET  /api/look/{id}                                the same again, of a look that is still held
    GET  /api/look/{id}/{track}/atlas                  all layers and heads as thumbnails
    GET  /api/look/{id}/{track}/map                    one view, in shades
    GET  /api/look/{id}/{track}/cells                  one view, in numbers
    GET  /api/look/{id}/{track}/row                    one row of every layer and head, in numbers
    GET  /api/look/{id}/image.png                      the picture of a captioner
    GET  /api/look/{id}/page.html                      the look as one HTML file, to keep and to send

The id is a hash of the request and the weights, so that asking again, after a restart too, gives the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from regard.serve.held_looks import HeldLook, HeldLooks
from regard.serve.limits import BEAM, run
from regard.serve.payload import MEDIA_TYPE
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened
from regard.serve.request_fields import Amount, ModelId, Picture, StrictRequest, Text, read_picture

if TYPE_CHECKING:
    from regard.look import Look

router = APIRouter(prefix="/api/look", tags=["looking"])


# ------------------------------------------------------------------------------------------------ requests


class SamplingOptions(StrictRequest):
    """Options for drawing new tokens."""

    temperature: Amount = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**53)] = 0


class LookRequest(StrictRequest):
    """A text, a source (and a target), or a picture (and a caption) to look at."""

    model: ModelId
    text: Text | None = None
    source: Text | None = None
    target: Text | None = None
    image: Picture | None = None
    new_tokens: Annotated[int, Field(ge=0, le=256)] = 0
    sampling: SamplingOptions | None = None
    beam: Annotated[int, Field(ge=1, le=BEAM)] = 5
    length_penalty: Amount = 1.0


LookId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
TrackName = Annotated[str, Path(pattern="^[a-z0-9-]{1,40}$")]
LayerPick = Annotated[str, Query(pattern="^([1-9][0-9]{0,3}|mean|max|rollout)$")]
HeadPick = Annotated[str, Query(pattern="^([1-9][0-9]{0,3}|mean|max)$")]


def files(media_type: str, description: str) -> dict[str, Any]:
    """Options of a route that sends files of one type."""
    schema = {"type": "string"} | ({} if media_type.startswith("text/") else {"format": "binary"})
    return {"response_class": Response, "responses": {
        200: {"content": {media_type: {"schema": schema}}, "description": description}}}


NUMBERS = files(MEDIA_TYPE, "numbers")


# --------------------------------------------------------------------------------------------------- routes


@router.post("")
async def post_look(request: Request, asked: LookRequest) -> dict[str, Any]:
    """Run the model once on the input, and tell everything but the numbers."""
    state = request.app.state
    return (await run(request, find_or_make, state.looks, state.registry.get(asked.model), asked)).answer


@router.get("/{id}")
async def get_look(request: Request, id: LookId) -> dict[str, Any]:
    """The answer again that described a look, while it is held."""
    held: HeldLook = request.app.state.looks.get(id)
    return held.answer


@router.get("/{id}/image.png", **files("image/png", "a picture"))
async def get_image(request: Request, id: LookId, which: Literal["read", "original"] = "read") -> Response:
    """The picture as the model reads it, or as it was given."""
    for side in request.app.state.looks.get(id).look.sides.values():
        if side.png:
            return Response(side.png if which == "read" else side.original, media_type="image/png")
    raise Refusal(404, "this look has no picture")


@router.get("/{id}/page.html", **files("text/html", "a page that opens anywhere"))
async def get_page(
    request: Request, id: LookId, track: str = Query("", pattern="^[a-z0-9-]{0,40}$"), layer: LayerPick = "mean",
    head: HeadPick = "mean",
) -> Response:
    """The look with all its numbers, or of a large one as many as fit, in one file that needs no server."""
    looks: HeldLooks = request.app.state.looks
    held = looks.get(id)

    def make() -> str:
        from regard.look.render.drawing import Drawing

        drawing = Drawing(held.look, track, layer, head, name=held.opened.name)
        with held.ready(drawing.chosen):
            return drawing.html()

    text = await run(request, make)
    looks.trim()
    headers = {"Content-Disposition": f'attachment; filename="{id[:8]}.html"'}
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)


@router.get("/{id}/{track}/atlas", **NUMBERS)
async def get_atlas(
    request: Request, id: LookId, track: TrackName, size: Annotated[int, Query(ge=1, le=256)] = 64,
    pool: Literal["max", "sum"] = "max",
) -> Response:
    """Every layer and head as a thumbnail of at most `size` rows and columns, in shades."""
    return await send_numbers(request, id, track, "atlas", size, pool)


@router.get("/{id}/{track}/row", **NUMBERS)
async def get_row(
    request: Request, id: LookId, track: TrackName, row: Annotated[int, Query(ge=0, lt=2**31)],
) -> Response:
    """One row of every layer and head, as float32 (layers, heads, columns)."""
    return await send_numbers(request, id, track, "row", row)


@router.get("/{id}/{track}/{form}", **NUMBERS)
async def get_view(
    request: Request, id: LookId, track: TrackName, form: Literal["map", "cells"], layer: LayerPick = "mean",
    head: HeadPick = "mean", words: bool = False,
) -> Response:
    """One view of all rows and columns: a map in shades (uint8, or int8 with a sign), or float32 cells, at most
    4,000,000 of them."""
    return await send_numbers(request, id, track, form, layer, head, words)


async def send_numbers(request: Request, id: str, name: str, kind: str, *options: Any) -> Response:
    """Send the numbers of a track, of one of the kinds of `look_numbers.PACKERS`."""
    looks: HeldLooks = request.app.state.looks
    held = looks.get(id)
    track = held.track(name)

    def make() -> bytes:
        from regard.serve.look_numbers import PACKERS

        with held.ready(track):
            return PACKERS[kind](held.look, track, *options)

    numbers = await run(request, make)
    looks.trim()
    return Response(numbers, media_type=MEDIA_TYPE)


# ------------------------------------------------------------------------------------- in worker threads


def find_or_make(looks: HeldLooks, opened: Opened, asked: LookRequest) -> HeldLook:
    """Return the look that was asked for: it is made now, unless it is held."""
    from regard.decoding.sampling import Sampling
    from regard.look import Request, look
    from regard.look.look import look_id

    wanted = Request(**asked.model_dump(exclude={"model", "image", "sampling"}),
                     image=None if asked.image is None else read_picture(asked.image),
                     sampling=None if asked.sampling is None else Sampling(**asked.sampling.model_dump()))
    id = look_id(opened.trained, wanted, opened.id)
    if held := looks.find(id):
        return held
    with opened.lock:
        if held := looks.find(id):                               # somebody asked for it while this waited
            return held
        made = look(opened.trained, wanted, opened.id, id)
        held = HeldLook(made, opened, describe_look(made, asked))
        looks.put(held)
    return held


def describe_look(made: Look, asked: LookRequest) -> dict[str, Any]:
    """Return the look without its numbers, with statistics of each head, and with the request, to ask again."""
    from regard.look.views import statistics

    answer = made.as_dict()
    for track, about in zip(made.tracks, answer["tracks"], strict=True):
        about["stats"] = None if track.lazy else statistics(track)
    return {**answer, "request": asked.model_dump(exclude_unset=True)}
