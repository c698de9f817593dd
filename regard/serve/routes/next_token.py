"""/api/next: the next-token distribution, step by step, and the names of a model's tokens."""

from __future__ import annotations

import base64
import weakref
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from regard.serve.limits import CHARACTERS, gate, run
from regard.serve.registry import Opened, Registry
from regard.serve.request_fields import ModelId, Picture, StrictRequest, Text, TokenId, read_input

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


class ChosenToken(BaseModel):
    id: int
    piece: str


class NextToken(BaseModel):
    """The distribution of the next token."""

    position: int
    chosen: ChosenToken | None = Field(description="The token that would be drawn; null once the text is over.")
    prefix: list[tuple[int, str]] = Field(description="Every token read, as id and what it adds to the text.")
    said: list[tuple[int, str, float]] = Field(description="Those after the prompt, with their log-probabilities.")
    over: str = Field(description="Empty, or why nothing follows: `end`, or `length`.")
    log_probs: str | None = Field(description="Base64 of little-endian float32, one a token: the model's own.")
    entropy: float | None = Field(description="Of this distribution, in bits.")
    end: int
    banned: list[int] = Field(description="Tokens never said: the others share their probability.")
    notes: list[str]


class Vocabulary(BaseModel):
    pieces: list[str] = Field(description="The name of each token, by its id.")


@router.post("/api/next")
async def next_token(request: Request, ask: NextRequest) -> NextToken:
    """The whole distribution of the next token, and the one that `regard generate` would draw."""
    registry: Registry = request.app.state.registry
    opened = registry.get(ask.model)
    async with gate(request):
        return await run(predict, opened, ask)


@router.get("/api/models/{id}/vocabulary")
async def vocabulary(request: Request, id: str) -> Vocabulary:
    """The names of a model's tokens."""
    registry: Registry = request.app.state.registry
    opened = registry.get(id)
    async with gate(request):
        return Vocabulary(pieces=await run(name_tokens, opened))


def name_tokens(opened: Opened) -> list[str]:
    from regard.look import next_token

    return next_token.vocabulary(opened.trained)


def predict(opened: Opened, ask: NextRequest) -> NextToken:
    from regard.decoding.sampling import Sampling
    from regard.look.next_token import entropy

    sampling = Sampling(ask.temperature, ask.top_k, ask.top_p, ask.seed)
    source = read_input(opened, None, ask.image) if opened.card.reads == "image" else ask.source
    with opened.lock:
        following = continuations_of(opened).after(ask.text, ask.said, sampling, source=source, steps=ask.steps)
    raw = following.log_probs
    return NextToken(
        position=following.position, prefix=list(following.prefix), over=following.over,
        said=[(id, piece, max(score, LOWEST)) for id, piece, score in following.said],
        chosen=None if following.chosen is None else ChosenToken(id=following.chosen, piece=following.chosen_piece),
        log_probs=None if raw is None else base64.b64encode(np.ascontiguousarray(raw, "<f4").tobytes()).decode(),
        entropy=None if raw is None else entropy(raw), end=following.end, banned=list(following.banned),
        notes=list(following.notes))


_continuations: weakref.WeakKeyDictionary[Opened, Any] = weakref.WeakKeyDictionary()     # texts each model read lately


def continuations_of(opened: Opened) -> Any:
    from regard.look.next_token import Continuations

    if opened not in _continuations:
        _continuations[opened] = Continuations(opened.trained)
    return _continuations[opened]
