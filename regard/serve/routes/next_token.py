"""/api/next: the next-token distribution, step by step, and the names of a model's tokens."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from regard.serve.limits import CHARACTERS, run
from regard.serve.registry import Opened
from regard.serve.request_fields import ModelId, Picture, StrictRequest, Text, TokenId, read_input
from regard.serve.result_json import answers, send

router = APIRouter(tags=["generating"])

SAID, STEPS = 512, 50
LOWEST = -9999.0                             # for log 0, which JSON cannot say


class NextRequest(StrictRequest):
    """A text, and the tokens said after it."""

    model: ModelId
    text: str = Field("", max_length=CHARACTERS, description="The prompt of a language model.")
    source: Text | None = Field(None, description="The text that is translated or summarised.")
    image: Picture | None = None
    said: list[TokenId] = Field([], max_length=SAID, description="Ids of the tokens said after it.")
    steps: int = Field(0, ge=0, le=STEPS, description="So many tokens are drawn first.")
    temperature: float = Field(1.0, ge=0, le=100, allow_inf_nan=False)
    top_k: int = Field(0, ge=0, lt=2**31)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class Vocabulary(BaseModel):
    pieces: list[str] = Field(description="The name of each token, by its id.")


@router.post("/api/next", **answers("regard.look.next_token", "Next"))
async def next_token(request: Request, ask: NextRequest) -> Response:
    """The whole distribution of the next token, and the one that `regard generate` would draw."""
    return await run(request, predict, request.app.state.registry.get(ask.model), ask)


@router.get("/api/models/{id}/vocabulary")
async def vocabulary(request: Request, id: str) -> Vocabulary:
    """The names of a model's tokens."""
    return Vocabulary(pieces=await run(request, name_tokens, request.app.state.registry.get(id)))


def name_tokens(opened: Opened) -> list[str]:
    from regard.look import next_token

    return next_token.vocabulary(opened.trained)


def predict(opened: Opened, ask: NextRequest) -> Response:
    from regard.decoding.sampling import Sampling

    sampling = Sampling(ask.temperature, ask.top_k, ask.top_p, ask.seed)
    source = read_input(opened, None, ask.image) if opened.card.reads == "image" else ask.source
    with opened.lock:
        following = continuations_of(opened).after(ask.text, ask.said, sampling, source=source, steps=ask.steps)
    said = tuple((id, piece, max(score, LOWEST)) for id, piece, score in following.said)
    return send(replace(following, said=said))


_continuations: weakref.WeakKeyDictionary[Opened, Any] = weakref.WeakKeyDictionary()     # texts each model read lately


def continuations_of(opened: Opened) -> Any:
    from regard.look.next_token import Continuations

    if opened not in _continuations:
        _continuations[opened] = Continuations(opened.trained)
    return _continuations[opened]
