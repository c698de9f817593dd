"""/api/beam: a search as a tree. /api/side-by-side: several models on one text, or on one source."""

from __future__ import annotations

import base64
import binascii
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from regard.serve.limits import BEAM, BODY, CHARACTERS, gate, run
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened, Registry

router = APIRouter(prefix="/api", tags=["page"])

NEW_TOKENS, FORCED = 128, 1024
Id = Annotated[int, Field(ge=0, lt=2**31)]
Text = Annotated[str, Field(max_length=CHARACTERS)]
Picture = Annotated[str, Field(max_length=BODY, description="The name of an example, or a PNG or JPEG file in base64.")]
Amount = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class AskBeam(BaseModel):
    """A search for the best translation, summary, caption, or continuation of a prompt."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(max_length=200)
    text: Text | None = None
    image: Picture | None = None
    width: int = Field(5, ge=1, le=BEAM)
    length_penalty: Amount = 1.0
    coverage: Amount = 0.0
    no_repeat: int = Field(0, ge=0, le=16)
    new_tokens: int = Field(24, ge=1, le=NEW_TOKENS, description="Of a language model: the most tokens to write.")
    force: list[Id] = Field([], max_length=FORCED, description="Tokens with which what is written must begin.")


class Node(BaseModel):
    """One continuation that was considered; `null` in a score stands for minus infinity."""

    id: int
    parent: int
    token: int
    piece: str
    adds: str
    length: int
    log_prob: float | None
    total: float | None
    covered: float | None
    score: float | None
    kept: bool
    why: str
    margin: float | None
    ended: bool


class Found(BaseModel):
    node: int
    text: str
    tokens: list[int]
    length: int
    log_prob: float | None
    score: float | None
    finished: bool


class How(BaseModel):
    width: int
    length: float
    n_best: int
    no_repeat: int
    coverage: float


class Tree(BaseModel):
    columns: list[list[Node]]
    finished: list[Found]
    source: list[str]
    text: str
    how: How
    force: list[int]
    notes: list[str]


@router.post("/beam")
async def beam(request: Request, ask: AskBeam) -> Tree:
    """The search as a tree: what was considered at each step, what was kept, and why the rest was not."""
    opened: Opened = request.app.state.registry.get(ask.model)
    async with gate(request):
        return Tree(**await run(searched, opened, ask))


def searched(opened: Opened, ask: AskBeam) -> dict[str, Any]:
    from regard.decoding.beam import Beam
    from regard.look.beam_tree import beam_tree

    how = Beam(ask.width, ask.length_penalty, 1, ask.no_repeat, ask.coverage)
    what = given(opened, ask.text, ask.image)
    with opened.lock:
        return beam_tree(opened.trained, what, how, force=ask.force, new_tokens=ask.new_tokens).as_dict()


# ----------------------------------------------------------------------------------------- side by side


class AskSideBySide(BaseModel):
    """Two to four models of one task, on one text or picture."""

    model_config = ConfigDict(extra="forbid")

    models: list[Annotated[str, Field(max_length=200)]] = Field(min_length=2, max_length=4)
    text: Text | None = None
    image: Picture | None = None


class Comparison(BaseModel):
    """`kind` is `text` for language models, and `written` for those that write from a source. A token is [piece, start,
    end, bits, [[id, piece, p] of the likeliest ten]]; `null` in the place of bits stands for infinity."""

    kind: str
    text: str
    models: list[dict[str, Any]]
    pairs: list[dict[str, Any]]


@router.post("/side-by-side")
async def side_by_side(request: Request, ask: AskSideBySide) -> Comparison:
    """Several models on the same text, aligned by its characters."""
    registry: Registry = request.app.state.registry
    if len(set(ask.models)) < len(ask.models):
        raise Refusal(422, "models: each may be named once", param="models")
    opened = [registry.get(id) for id in ask.models]
    async with gate(request):
        return Comparison(**await run(compared, opened, ask))


def compared(opened: list[Opened], ask: AskSideBySide) -> dict[str, Any]:
    from regard.look import side_by_side as texts
    from regard.look import side_by_side_written as written

    if len({each.task for each in opened}) > 1:
        raise Refusal(400, "these models are of different tasks: compare language models with language models, "
                           "translators with translators", param="models")
    what = given(opened[0], ask.text, ask.image)
    compare = texts.side_by_side if opened[0].card.reads == "text" else written.written_side_by_side
    with ExitStack() as held:
        for each in sorted(opened, key=lambda each: each.id):            # in one order, so that nobody waits in a ring
            held.enter_context(each.lock)
        return compare({each.id: each.trained for each in opened}, what).as_dict()


def given(opened: Opened, text: str | None, image: str | None) -> Any:
    """The text, or the picture as the model reads it."""
    if opened.card.reads != "image":
        if text is None:
            raise Refusal(422, f"{opened.id} reads a text: give one", param="text")
        return text
    if image is None:
        raise Refusal(422, f"{opened.id} reads a picture: give one", param="image")
    from regard.look.picture import decoded, example_picture

    return decoded(example_picture(image) or from_base64(image), opened.trained.size)


def from_base64(image: str) -> bytes:
    try:
        return base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(422, "image: neither the name of an example nor a file in base64", param="image") from None
