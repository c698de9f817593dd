"""/api/next: the next-token distribution, step by step, and the names of a model's tokens."""

from __future__ import annotations

import base64
import weakref
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from regard.serve.limits import CHARACTERS, gate, run
from regard.serve.looks import picture
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened, Registry

router = APIRouter(tags=["generating"])

SAID, STEPS = 512, 50
Id = Annotated[int, Field(ge=0, lt=2**31)]
LOWEST = -9999.0                             # for log 0, which JSON cannot say


class NextAsk(BaseModel):
    """A text, and what was said after it."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(max_length=200)
    text: str = Field("", max_length=CHARACTERS, description="The prompt of a language model.")
    source: str | None = Field(None, max_length=CHARACTERS, description="What is translated or summarised.")
    image: str | None = Field(None, max_length=1_000_000, description="A picture: base64, or an example's name.")
    said: list[Id] = Field([], max_length=SAID, description="Ids of the tokens said after it.")
    steps: int = Field(0, ge=0, le=STEPS, description="So many tokens are drawn first.")
    temperature: float = Field(1.0, ge=0, le=100, allow_inf_nan=False)
    top_k: int = Field(0, ge=0, lt=2**31)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int = Field(0, ge=-(2**63), lt=2**63)


class Chosen(BaseModel):
    id: int
    piece: str


class NextToken(BaseModel):
    """What may follow."""

    position: int
    chosen: Chosen | None = Field(description="What would be drawn next; null once the text is over.")
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
async def next_token(request: Request, ask: NextAsk) -> NextToken:
    """The whole distribution of the next token, and the one that `regard generate` would draw."""
    registry: Registry = request.app.state.registry
    opened = registry.get(ask.model)
    async with gate(request):
        return await run(told, opened, ask)


@router.get("/api/models/{id}/vocabulary")
async def vocabulary(request: Request, id: str) -> Vocabulary:
    """What the tokens are called."""
    registry: Registry = request.app.state.registry
    opened = registry.get(id)
    async with gate(request):
        return Vocabulary(pieces=await run(pieces_of, opened))


def pieces_of(opened: Opened) -> list[str]:
    from regard.look import next_token

    return next_token.vocabulary(opened.trained)


def told(opened: Opened, ask: NextAsk) -> NextToken:
    from regard.decoding.sampling import Sampling
    from regard.look.next_token import entropy

    how = Sampling(ask.temperature, ask.top_k, ask.top_p, ask.seed)
    given: Any = ask.source
    if opened.card.reads == "image":
        given = pixels(opened, ask.image)
    with opened.lock:
        found = texts_of(opened).after(ask.text, ask.said, how, source=given, steps=ask.steps)
    raw = found.log_probs
    return NextToken(
        position=found.position, prefix=list(found.prefix), over=found.over,
        said=[(id, piece, max(score, LOWEST)) for id, piece, score in found.said],
        chosen=None if found.chosen is None else Chosen(id=found.chosen, piece=found.chosen_piece),
        log_probs=None if raw is None else base64.b64encode(np.ascontiguousarray(raw, "<f4").tobytes()).decode(),
        entropy=None if raw is None else entropy(raw), end=found.end, banned=list(found.banned),
        notes=list(found.notes))


def pixels(opened: Opened, image: str | None) -> Any:
    from regard.look.picture import decoded

    raw = picture(image)
    if not raw:
        raise Refusal(400, "a captioner goes on with what it says of a picture: give one", param="image")
    return decoded(raw, opened.trained.size)


_texts: weakref.WeakKeyDictionary[Opened, Any] = weakref.WeakKeyDictionary()     # what each model has read lately


def texts_of(opened: Opened) -> Any:
    from regard.look.next_token import Continuations

    if opened not in _texts:
        _texts[opened] = Continuations(opened.trained)
    return _texts[opened]
