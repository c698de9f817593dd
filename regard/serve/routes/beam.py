"""/api/beam: a search as a tree. /api/side-by-side: several models on one text, or on one source."""

from __future__ import annotations

from contextlib import ExitStack

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from regard.serve.limits import BEAM, run
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened
from regard.serve.request_fields import Amount, ModelId, Picture, StrictRequest, Text, TokenId, read_input
from regard.serve.result_json import answers, send

router = APIRouter(prefix="/api", tags=["page"])

NEW_TOKENS, FORCED = 128, 1024


class BeamRequest(StrictRequest):
    """A search for the best translation, summary, caption, or continuation of a prompt."""

    model: ModelId
    text: Text | None = None
    image: Picture | None = None
    width: int = Field(5, ge=1, le=BEAM)
    length_penalty: Amount = 1.0
    coverage: Amount = 0.0
    no_repeat: int = Field(0, ge=0, le=16)
    new_tokens: int = Field(24, ge=1, le=NEW_TOKENS, description="Of a language model: the most tokens to write.")
    force: list[TokenId] = Field([], max_length=FORCED, description="Tokens with which what is written must begin.")


@router.post("/beam", **answers("regard.look.beam_tree", "BeamTree"))
async def beam(request: Request, ask: BeamRequest) -> Response:
    """Search, and send the tree: the candidates of each step, those kept, and why each other was dropped."""
    return await run(request, search_tree, request.app.state.registry.get(ask.model), ask)


def search_tree(opened: Opened, ask: BeamRequest) -> Response:
    from regard.decoding.beam import BeamOptions
    from regard.look.beam_tree import beam_tree

    options = BeamOptions(ask.width, ask.length_penalty, 1, ask.no_repeat, ask.coverage)
    given = read_input(opened, ask.text, ask.image)
    with opened.lock:
        return send(beam_tree(opened.trained, given, options, force=ask.force, new_tokens=ask.new_tokens))


# ----------------------------------------------------------------------------------------- side by side


class SideBySideRequest(StrictRequest):
    """Two to four models of one task, on one text or picture."""

    models: list[ModelId] = Field(min_length=2, max_length=4)
    text: Text | None = None
    image: Picture | None = None


@router.post("/side-by-side", **answers("regard.look.side_by_side", "SideBySide"))
async def side_by_side(request: Request, ask: SideBySideRequest) -> Response:
    """Several models on the same text, aligned by its characters."""
    if len(set(ask.models)) < len(ask.models):
        raise Refusal(422, "models: each may be named once", param="models")
    return await run(request, compare, [request.app.state.registry.get(id) for id in ask.models], ask)


def compare(opened: list[Opened], ask: SideBySideRequest) -> Response:
    from regard.look import side_by_side as texts
    from regard.look import side_by_side_written as written

    if len({each.task for each in opened}) > 1:
        raise Refusal(400, "these models are of different tasks: compare language models with language models, "
                           "translators with translators", param="models")
    given = read_input(opened[0], ask.text, ask.image)
    align = texts.side_by_side if opened[0].card.reads == "text" else written.written_side_by_side
    with ExitStack() as held:
        for each in sorted(opened, key=lambda each: each.id):            # in one order, so that nobody waits in a ring
            held.enter_context(each.lock)
        return send(align({each.id: each.trained for each in opened}, given))
