"""/translate, /detect and /languages, as LibreTranslate's clients call them, with forms or JSON; for translators.

    curl http://127.0.0.1:8000/translate -d q="Le chat dort." -d source=fr -d target=en

Of several translators the one for the pair of languages is taken; with `source=auto`, the one whose source the text is
most likely in. A side whose language a run does not name is called `source` or `target`.
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
from regard.serve.security import FORM_TYPES

router = APIRouter(tags=["libretranslate"])

TEXTS = 100                    # in one request
BEAM = 5
T = TypeVar("T", bound=BaseModel)

Text = Annotated[str, Field(max_length=CHARACTERS)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
Code = Annotated[str, Field(min_length=1, max_length=40)]


class Ask(BaseModel):
    """A text, or several, to be translated."""

    model_config = ConfigDict(extra="ignore")

    q: Text | Texts
    source: Code = "auto"
    target: Code
    format: Literal["text", "html"] = Field("text", description="Only `text`.")
    alternatives: Annotated[int, Field(ge=0, lt=DRAWS)] = 0
    api_key: str | None = Field(None, description="Not used: a token goes into the header.")


class AskLanguage(BaseModel):
    """A text whose language is asked for."""

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


def both_ways(model: type[BaseModel]) -> dict[str, Any]:
    """The description of a body that may be JSON or a form."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {
        kind: {"schema": schema} for kind in ("application/json", *FORM_TYPES)}}}


async def read(request: Request, kind: type[T]) -> T:
    """The body, of whichever type it is, in the described shape."""
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
    """Each field once, but for `q`, which may come several times."""
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


@router.post("/detect", openapi_extra=both_ways(AskLanguage))
async def detect(request: Request) -> list[Detected]:
    """In which of the known languages a text is, likeliest first, and how sure that is."""
    ask = await read(request, AskLanguage)
    translators(request)
    async with gate(request):
        detector = await run(detector_of, request.app.state.registry)
        return detected(await run(detector.detect, ask.q))


@router.post("/translate", response_model_exclude_none=True, openapi_extra=both_ways(Ask))
async def translate(request: Request) -> Translated:
    """Translate a text, or several."""
    ask = await read(request, Ask)
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
    found: list[Opened] = request.app.state.registry.served_by("translate")
    if not found:
        raise Refusal(400, "no translator is served here: start with a run of `regard train translate`",
                      code="no_translator")
    return found


def pair_of(opened: Opened) -> tuple[str, str]:
    source, target = opened.languages or ("", "")
    return source or "source", target or "target"


# ------------------------------------------------------------------------------------------- answering


def answer(served: Sequence[Opened], registry: Registry, ask: Ask, texts: Sequence[str]) -> Translated:
    into = [opened for opened in served if pair_of(opened)[1] == ask.target]
    told: list[Detected] | None = None
    if ask.source == "auto" and into:
        ranked = [detector_of(registry).detect(text) for text in texts]
        told = [(detected(each) or [Detected(confidence=0.0, language=pair_of(into[0])[0])])[0] for each in ranked]
        chosen = [best_of(into, each) for each in ranked]
    else:
        chosen = [chosen_by_pair(served, into, ask)] * len(texts)
    found = [translated(opened, text, ask.alternatives) for opened, text in zip(chosen, texts, strict=True)]
    alone = isinstance(ask.q, str)
    best, others = [each[0] for each in found], [each[1:] for each in found]
    return Translated(
        translatedText=best[0] if alone else best,
        detectedLanguage=None if told is None else told[0] if alone else told,
        alternatives=None if not ask.alternatives else others[0] if alone else others)


def chosen_by_pair(served: Sequence[Opened], into: Sequence[Opened], ask: Ask) -> Opened:
    for opened in into:
        if pair_of(opened)[0] == ask.source:
            return opened
    pairs = ", ".join(sorted({" to ".join(pair_of(opened)) for opened in served}))
    raise Refusal(400, f"nothing translates from {ask.source!r} to {ask.target!r} here (there are: {pairs})",
                  param="target" if not into else "source", code="no_such_pair")


def best_of(into: Sequence[Opened], ranked: Sequence[tuple[str, float]]) -> Opened:
    """The translator whose source is likeliest; of equals the first."""
    shares = dict(ranked)
    return max(into, key=lambda opened: shares.get(pair_of(opened)[0], 0.0))


def translated(opened: Opened, text: str, alternatives: int) -> list[str]:
    """The translation line by line, and as many others as were asked for."""
    with opened.lock:
        check()
        n_best = 1 + alternatives
        lines = opened.trained.translate(text.split("\n"), beam=max(BEAM, n_best), n_best=n_best)
    ways = [[line.n_best[min(place, len(line.n_best) - 1)].text for line in lines] for place in range(n_best)]
    joined = ["\n".join(way) for way in ways]
    return list(dict.fromkeys(joined))                     # each once: a short text may have few


# ------------------------------------------------------------------------------------------- detecting

_making = threading.Lock()


def detector_of(registry: Registry) -> Detector:
    """Made once, from the vocabularies of what is served."""
    with _making:
        found: Detector | None = getattr(registry, "detector", None)
        if found is None:
            words, whole = words_by_language(registry)
            found = Detector(words)
            if whole:
                registry.detector = found                  # type: ignore[attr-defined]
        return found


def words_by_language(registry: Registry) -> tuple[dict[str, list[str]], bool]:
    """Of each language the words that only it has a vocabulary for; none where both sides share one.

    Also whether every vocabulary could be read: a damaged one is left out, and tried again the next time.
    """
    from regard.data.tokens.tokenizer_pair import TokenizerPair

    words: dict[str, list[str]] = {}
    whole = True
    for opened in registry.served_by("translate"):
        try:
            with reading(TOKENIZER, opened.id):
                both = TokenizerPair.load(opened.folder.tokenizer_path)
        except Damaged as damaged:
            log.warning("%s tells nothing of its languages: %s", opened.id, damaged)
            whole = False
            for code in pair_of(opened):
                words.setdefault(code, [])
            continue
        for code, own in zip(pair_of(opened), (both.source, both.target), strict=True):
            named = [] if both.shared else [own.token(id) for id in range(4, own.vocab_size)]
            words.setdefault(code, []).extend(named)
    return words, whole


def detected(ranked: Sequence[tuple[str, float]]) -> list[Detected]:
    return [Detected(confidence=round(100 * share, 1), language=code) for code, share in ranked]
