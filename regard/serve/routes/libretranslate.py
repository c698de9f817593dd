"""/translate, /detect and /languages, as LibreTranslate's clients call them, with forms or JSON; for translators.

    curl http://127.0.0.1:8000/translate -d q="Le chat dort." -d source=fr -d target=en

Of several translators the one for the pair of languages answers; with `source=auto`, the one whose source language the
text is most likely in. A side whose language a run does not name is called `source` or `target`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.run_folder import TOKENIZER
from regard.serve.damage import Damaged, reading
from regard.serve.languages import NAMES, Detector
from regard.serve.limits import CHARACTERS, DRAWS, check, gate, run
from regard.serve.refusals import Refusal, log
from regard.serve.registry import Opened, Registry
from regard.serve.request_fields import Text
from regard.serve.security import FORM_TYPES

router = APIRouter(tags=["libretranslate"])

TEXTS = 100                    # in one request
BEAM = 5
T = TypeVar("T", bound=BaseModel)

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


class DetectRequest(BaseModel):
    """A text whose language is to be detected."""

    model_config = ConfigDict(extra="ignore")

    q: Text
    api_key: str | None = Field(None, description="Not used: a token goes into the header.")


class Detected(BaseModel):
    confidence: Annotated[float, Field(ge=0, le=100)] = Field(description="In percent.")
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


def form_or_json(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body that may be JSON or a form."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {
        kind: {"schema": schema} for kind in ("application/json", *FORM_TYPES)}}}


async def read_body(request: Request, kind: type[T]) -> T:
    """Return the body, JSON or a form, in the described shape."""
    form = request.headers.get("content-type", "").partition(";")[0].strip().lower() in FORM_TYPES
    try:
        values = await read_form(request) if form else await request.json()
    except (ValueError, RecursionError):
        raise Refusal(422, "the body is not what its Content-Type says") from None
    try:
        return kind.model_validate(values)
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


@router.post("/detect", openapi_extra=form_or_json(DetectRequest))
async def detect(request: Request) -> list[Detected]:
    """The likeliest languages of a text among the known ones, each with its confidence."""
    ask = await read_body(request, DetectRequest)
    translators(request)
    async with gate(request):
        detector = await run(detector_of, request.app.state.registry)
        return rate(await run(detector.detect, ask.q))


@router.post("/translate", response_model_exclude_none=True, openapi_extra=form_or_json(TranslateRequest))
async def translate(request: Request) -> Translated:
    """Translate a text, or several."""
    ask = await read_body(request, TranslateRequest)
    texts = [ask.q] if isinstance(ask.q, str) else ask.q
    if sum(map(len, texts)) > CHARACTERS:
        raise Refusal(400, f"the texts together have more than {CHARACTERS:,} characters: send less at once", param="q")
    if ask.format != "text":
        raise Refusal(400, f"format {ask.format!r} cannot be used: only text is translated; take the marks out",
                      param="format")
    served = translators(request)
    async with gate(request):
        return await run(answer, served, request.app.state.registry, ask, texts)


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


def answer(served: Sequence[Opened], registry: Registry, ask: TranslateRequest, texts: Sequence[str]) -> Translated:
    into = [opened for opened in served if pair_of(opened)[1] == ask.target]
    detected: list[Detected] | None = None
    if ask.source == "auto" and into:
        ranked = [detector_of(registry).detect(text) for text in texts]
        detected = [(rate(each) or [Detected(confidence=0.0, language=pair_of(into[0])[0])])[0] for each in ranked]
        chosen = [likeliest_of(into, each) for each in ranked]
    else:
        chosen = [find_pair(served, into, ask)] * len(texts)
    results = [translate_lines(opened, text, ask.alternatives) for opened, text in zip(chosen, texts, strict=True)]
    alone = isinstance(ask.q, str)
    best, others = [each[0] for each in results], [each[1:] for each in results]
    return Translated(
        translatedText=best[0] if alone else best,
        detectedLanguage=None if detected is None else detected[0] if alone else detected,
        alternatives=None if not ask.alternatives else others[0] if alone else others)


def find_pair(served: Sequence[Opened], into: Sequence[Opened], ask: TranslateRequest) -> Opened:
    for opened in into:
        if pair_of(opened)[0] == ask.source:
            return opened
    pairs = ", ".join(sorted({" to ".join(pair_of(opened)) for opened in served}))
    raise Refusal(400, f"nothing translates from {ask.source!r} to {ask.target!r} here (there are: {pairs})",
                  param="target" if not into else "source", code="no_such_pair")


def likeliest_of(into: Sequence[Opened], ranked: Sequence[tuple[str, float]]) -> Opened:
    """Return the translator whose source language is likeliest; of equals the first."""
    shares = dict(ranked)
    return max(into, key=lambda opened: shares.get(pair_of(opened)[0], 0.0))


def translate_lines(opened: Opened, text: str, alternatives: int) -> list[str]:
    """Return the translation, made line by line, and as many alternatives as were asked for."""
    with opened.lock:
        check()
        n_best = 1 + alternatives
        lines = opened.trained.translate(text.split("\n"), beam=max(BEAM, n_best), n_best=n_best)
    ranks = [[line.n_best[min(rank, len(line.n_best) - 1)].text for line in lines] for rank in range(n_best)]
    return list(dict.fromkeys("\n".join(each) for each in ranks))      # each once: a short text may have few


# ------------------------------------------------------------------------------------------- detecting

_making = threading.Lock()


def detector_of(registry: Registry) -> Detector:
    """Return the detector; it is made once, from the vocabularies of the translators."""
    with _making:
        detector: Detector | None = getattr(registry, "detector", None)
        if detector is None:
            words, whole = words_by_language(registry)
            detector = Detector(words)
            if whole:
                registry.detector = detector               # type: ignore[attr-defined]
        return detector


def words_by_language(registry: Registry) -> tuple[dict[str, list[str]], bool]:
    """Return the words of each language that has a vocabulary of its own, and whether every vocabulary could be read.

    A damaged one is left out, and tried again the next time.
    """
    from regard.data.tokens.tokenizer_pair import TokenizerPair

    words: dict[str, list[str]] = {}
    whole = True
    for opened in registry.served_by("translate"):
        try:
            with reading(TOKENIZER, opened.id):
                pair = TokenizerPair.load(opened.folder.tokenizer_path)
        except Damaged as damaged:
            log.warning("%s tells nothing of its languages: %s", opened.id, damaged)
            whole = False
            for code in pair_of(opened):
                words.setdefault(code, [])
            continue
        for code, side in zip(pair_of(opened), (pair.source, pair.target), strict=True):
            tokens = [] if pair.shared else [side.token(id) for id in range(4, side.vocab_size)]
            words.setdefault(code, []).extend(tokens)
    return words, whole


def rate(ranked: Sequence[tuple[str, float]]) -> list[Detected]:
    return [Detected(confidence=round(100 * share, 1), language=code) for code, share in ranked]
