"""/translate and /languages, as LibreTranslate's clients call them, with forms or JSON; for translators.

    curl http://127.0.0.1:8000/translate -d q="Le chat dort." -d source=fr -d target=en

Of several translators the one for the pair of languages answers. Languages are not detected: `source=auto` stands for
the only language that is translated from into the target. A side whose language a run does not name is called `source`
or `target`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.serve.limits import CHARACTERS, DRAWS, check, run
from regard.serve.refusals import Refusal
from regard.serve.registry import Opened
from regard.serve.request_fields import Text
from regard.serve.security import FORM_TYPES

router = APIRouter(tags=["libretranslate"])

TEXTS = 100                    # in one request
BEAM = 5
NAMES: dict[str, str] = tomllib.loads((Path(__file__).parents[1] / "languages.toml").read_text("utf-8"))["names"]

Texts = Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
Code = Annotated[str, Field(min_length=1, max_length=40)]


class TranslateRequest(BaseModel):
    """A text, or several, to translate."""

    model_config = ConfigDict(extra="ignore")

    q: Text | Texts
    source: Code = "auto"
    target: Code
    format: Literal["text", "html"] = Field("text", description="Only `text`.")
    alternatives: Annotated[int, Field(ge=0, lt=DRAWS)] = 0
    api_key: str | None = Field(None, description="Not used: a token goes into the header.")


class Detected(BaseModel):
    """The language that stands for `auto`."""

    confidence: float = Field(default=0.0, description="0: the text was not looked at.")
    language: str


class Translated(BaseModel):
    """The translation; lists where `q` was one."""

    translatedText: str | list[str]
    detectedLanguage: Detected | list[Detected] | None = None
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    code: str
    name: str
    targets: list[str]


# For the OpenAPI description: a body that may be JSON or a form.
FORM_OR_JSON = {"requestBody": {"required": True, "content": {
    kind: {"schema": TranslateRequest.model_json_schema()} for kind in ("application/json", *FORM_TYPES)}}}


async def read_body(request: Request) -> TranslateRequest:
    """Return the body, JSON or a form, in the described shape."""
    form = request.headers.get("content-type", "").partition(";")[0].strip().lower() in FORM_TYPES
    try:
        values = await read_form(request) if form else await request.json()
    except (ValueError, RecursionError):
        raise Refusal(422, "the body is not what its Content-Type says") from None
    try:
        return TranslateRequest.model_validate(values)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None


async def read_form(request: Request) -> dict[str, Any]:
    """Return each field once, but for `q`, which may come several times."""
    async with request.form(max_files=0, max_fields=TEXTS + 20) as form:
        values: dict[str, Any] = {name: value for name, value in form.multi_items() if isinstance(value, str)}
        several = [value for value in form.getlist("q") if isinstance(value, str)]
    return {**values, "q": several} if len(several) > 1 else values


# -------------------------------------------------------------------------------------------- routes


@router.get("/languages")
async def languages(request: Request) -> list[Language]:
    """The languages that can be translated from, and into which."""
    targets: dict[str, list[str]] = {}
    for opened in translators(request):
        source, target = pair_of(opened)
        targets.setdefault(source, [])
        if target not in targets[source]:
            targets[source].append(target)
    return [Language(code=code, name=NAMES.get(code, code), targets=into) for code, into in targets.items()]


@router.post("/detect", include_in_schema=False)
async def detect() -> None:
    """Refuse in a line that LibreTranslate's clients show."""
    raise Refusal(400, "languages are not detected here: name the source (/languages lists them)", code="no_detection")


@router.post("/translate", response_model_exclude_none=True, openapi_extra=FORM_OR_JSON)
async def translate(request: Request) -> Translated:
    """Translate a text, or several."""
    ask = await read_body(request)
    texts = [ask.q] if isinstance(ask.q, str) else ask.q
    if sum(map(len, texts)) > CHARACTERS:
        raise Refusal(400, f"the texts together have more than {CHARACTERS:,} characters: send less at once", param="q")
    if ask.format != "text":
        raise Refusal(400, f"format {ask.format!r} cannot be used: only text is translated; take the marks out",
                      param="format")
    return await run(request, answer, find_translator(translators(request), ask), ask, texts)


def translators(request: Request) -> list[Opened]:
    served: list[Opened] = request.app.state.registry.served_by("translate")
    if not served:
        raise Refusal(400, "no translator is served here: start with a run of `regard train translate`",
                      code="no_translator")
    return served


def pair_of(opened: Opened) -> tuple[str, str]:
    source, target = opened.languages or ("", "")
    return source or "source", target or "target"


# ------------------------------------------------------------------------------------------- answering


def find_translator(served: Sequence[Opened], ask: TranslateRequest) -> Opened:
    """Return the translator for the pair of languages; for `auto`, the first into the target if all have one source."""
    into = {pair_of(opened)[0]: opened for opened in reversed(served) if pair_of(opened)[1] == ask.target}
    if ask.source in into:
        return into[ask.source]
    if ask.source == "auto" and len(into) == 1:
        return next(iter(into.values()))
    if ask.source == "auto" and into:
        raise Refusal(400, f"source 'auto': languages are not detected here; name one of {', '.join(sorted(into))}",
                      param="source", code="no_detection")
    pairs = ", ".join(sorted({" to ".join(pair_of(opened)) for opened in served}))
    raise Refusal(400, f"nothing translates from {ask.source!r} to {ask.target!r} here (there are: {pairs})",
                  param="target" if not into else "source", code="no_such_pair")


def answer(opened: Opened, ask: TranslateRequest, texts: Sequence[str]) -> Translated:
    results = [translate_lines(opened, text, ask.alternatives) for text in texts]
    best, others = [each[0] for each in results], [each[1:] for each in results]
    taken = [Detected(language=pair_of(opened)[0])] * len(texts)
    alone = isinstance(ask.q, str)
    return Translated(
        translatedText=best[0] if alone else best,
        detectedLanguage=None if ask.source != "auto" else taken[0] if alone else taken,
        alternatives=None if not ask.alternatives else others[0] if alone else others)


def translate_lines(opened: Opened, text: str, alternatives: int) -> list[str]:
    """Return the translation, made line by line, and as many alternatives as were asked for."""
    with opened.lock:
        check()
        n_best = 1 + alternatives
        lines = opened.trained.translate(text.split("\n"), beam=max(BEAM, n_best), n_best=n_best)
    ranks = [[line.n_best[min(rank, len(line.n_best) - 1)].text for line in lines] for rank in range(n_best)]
    return list(dict.fromkeys("\n".join(each) for each in ranks))      # each once: a short text may have few
