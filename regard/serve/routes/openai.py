"""/v1/models and /v1/completions, as OpenAI's clients call them, for language models.

    client = openai.OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
    client.completions.create(model="notes", prompt="Once upon a time", max_tokens=50)

An option that our models do not have is refused in one line instead of being ignored.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from regard.serve.events import Events
from regard.serve.limits import CHARACTERS, DRAWS, run
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened, Registry
from regard.serve.request_fields import ModelId, StrictRequest, Text, TokenId

if TYPE_CHECKING:
    from regard.serve.completion import CompletionRow, Completions  # needs torch, which is loaded when first used

router = APIRouter(prefix="/v1", tags=["openai"])

PROMPTS, ROWS, TOKENS, STOPS = 16, 32, 4096, 4
Ids = Annotated[list[TokenId], Field(min_length=1, max_length=CHARACTERS)]
Stop = Annotated[str, Field(min_length=1, max_length=200)]


class StreamOptions(BaseModel):
    include_usage: bool | None = None


class CompletionRequest(StrictRequest):
    """A text to continue."""

    model: ModelId = Field(description="The id of a language model, from /v1/models.")
    prompt: (Text | Annotated[list[Text], Field(min_length=1, max_length=PROMPTS)] | Ids
             | Annotated[list[Ids], Field(min_length=1, max_length=PROMPTS)]) = ""
    max_tokens: Annotated[int, Field(ge=0, le=TOKENS)] | None = 16
    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = Field(0, description="Ours, not OpenAI's; 0 keeps all.")
    n: Annotated[int, Field(ge=1, le=DRAWS)] | None = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=STOPS)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    echo: bool | None = False
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    suffix: str | None = Field(None, description="Refused: our models read from left to right.")
    best_of: Annotated[int, Field(ge=1, le=DRAWS)] | None = Field(None, description="Only as many as `n`.")
    presence_penalty: float | None = Field(None, description="Only 0.")
    frequency_penalty: float | None = Field(None, description="Only 0.")
    logit_bias: dict[str, float] | None = Field(None, description="Only empty.")
    user: Text | None = None


class Logprobs(BaseModel):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    text: str
    index: int
    finish_reason: Literal["stop", "length"]
    logprobs: Logprobs | None = None


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """The texts written. `notices` is ours: lines for the user, such as that a prompt was cut."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage
    notices: list[str] = []


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "regard"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


# --------------------------------------------------------------------------------------------- models


@router.get("/models")
async def models(request: Request) -> ModelList:
    """The language models, for tools that list them."""
    registry: Registry = request.app.state.registry
    return ModelList(data=[card(opened) for opened in registry.served_by("completions")])


@router.get("/models/{model}")
async def model(request: Request, model: str) -> ModelCard:
    """One language model."""
    return card(language_model(request, model))


def card(opened: Opened) -> ModelCard:
    return ModelCard(id=opened.id, created=opened.created)


def language_model(request: Request, id: str) -> Opened:
    opened: Opened = request.app.state.registry.get(id)
    if opened.card.api != "completions":
        raise Refusal(400, f"{id} is no language model but a run of the task {opened.task}: {opened.card.instead}",
                      param="model")
    return opened


# ---------------------------------------------------------------------------------------- completions


@router.post("/completions", response_model=Completion, responses={200: {
    "description": "The completion; with `stream`, server-sent events that hold it piece by piece, and `[DONE]`.",
    "content": {"text/event-stream": {"schema": {                      # of one event
        "type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}}}}})
async def completions(ask: CompletionRequest, request: Request) -> Any:
    """Continue a text."""
    opened = language_model(request, ask.model)
    refuse_unknown_options(ask)
    header = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time()),
              "model": opened.id}
    if ask.stream:
        gated = await request.app.state.gate.enter(request)
        try:
            work = await gated.run(begin, opened, ask)
        except BaseException:
            gated.leave()
            raise
        return Events(gated, write_chunks(work, header, ask))
    return await run(request, lambda: write_whole(begin(opened, ask), header))


def begin(opened: Opened, ask: CompletionRequest) -> Completions:
    from regard.serve.completion import Completions

    return Completions(
        opened, ask.prompt, new_tokens=16 if ask.max_tokens is None else ask.max_tokens,
        temperature=1.0 if ask.temperature is None else ask.temperature, top_k=ask.top_k or 0,
        top_p=1.0 if ask.top_p is None else ask.top_p, draws=ask.n or 1,
        seed=secrets.randbits(32) if ask.seed is None else ask.seed,
        stop=[ask.stop] if isinstance(ask.stop, str) else ask.stop or [], echo=bool(ask.echo), top=ask.logprobs)


def refuse_unknown_options(ask: CompletionRequest) -> None:
    prompts = ask.prompt if isinstance(ask.prompt, list) else [ask.prompt]
    number = 1 if prompts and isinstance(prompts[0], int) else len(prompts)
    if sum(1 if isinstance(each, int) else len(each) for each in prompts) > CHARACTERS:
        raise Refusal(400, f"the prompts together have more than {CHARACTERS:,} characters or tokens: send less at "
                           "once", param="prompt")
    if number * (ask.n or 1) > ROWS:
        raise Refusal(400, f"{number} prompts with n {ask.n} are more than {ROWS} texts at once: send fewer", param="n")
    if ask.suffix:
        raise Refusal(400, "suffix cannot be used: our models read from left to right; leave it out", param="suffix")
    if ask.best_of is not None and ask.best_of != (ask.n or 1):
        raise Refusal(400, f"best_of {ask.best_of} cannot be used: leave it out, or make it the same as n",
                      param="best_of")
    for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
        if getattr(ask, name):
            raise Refusal(400, f"{name} cannot be used with our models: leave it out", param=name)


def write_whole(work: Completions, header: dict[str, Any]) -> dict[str, Any]:
    for _ in work.pieces():                                # nothing is taken before the end
        pass
    return {**header, "choices": [take_choice(row) for row in work.rows], "usage": work.usage(),
            "notices": work.notices}


def write_chunks(work: Completions, header: dict[str, Any], ask: CompletionRequest) -> Iterator[dict[str, Any]]:
    """Yield the answer in chunks: all have its id and time."""
    for row in work.pieces():
        yield {**header, "choices": [take_choice(row)]}
    if ask.stream_options is not None and ask.stream_options.include_usage:
        yield {**header, "choices": [], "usage": work.usage()}


def take_choice(row: CompletionRow) -> dict[str, Any]:
    text, log = row.take()
    return {"text": text, "index": row.index, "finish_reason": row.finish, "logprobs": log}
