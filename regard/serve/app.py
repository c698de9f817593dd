"""The application: the page, the routes it asks, and those that other tools know.

    app = make_app(Registry(["runs/notes"]))
    uvicorn.run(app)                         # or `regard serve runs/notes`, which also minds who may connect
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from regard import __version__
from regard.serve import beaming, computing, generating, libretranslate, looks, openai, refusals, saving, training
from regard.serve.damage import plain
from regard.serve.limits import Gate
from regard.serve.refusals import RESPONSES, Refusal, log
from regard.serve.registry import Opened, Registry
from regard.serve.security import Guard
from regard.serve.settings import Settings

PAGE = Path(__file__).parent / "page"
MEDIA = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
         ".json": "application/json", ".txt": "text/plain; charset=utf-8"}
LARGEST_CARD = 4_000_000                     # bytes of one result of the lab


def make_app(registry: Registry, settings: Settings | None = None) -> FastAPI:
    """Everything that is served, guarded."""
    settings = settings or Settings()

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        if app.state.gate.closed:            # started once more
            app.state.gate = Gate(settings.running, settings.queued, settings.seconds)
        try:
            yield
        finally:
            app.state.gate.close()

    app = FastAPI(
        title="Regard", version=__version__, docs_url=None, redoc_url=None, lifespan=living,
        description="Trained sequence models, looked at and used. Errors are one line, in OpenAI's shape.")
    app.state.registry, app.state.settings = registry, settings
    app.state.gate = Gate(settings.running, settings.queued, settings.seconds)
    refusals.install(app)
    for each in (router, openai.router, libretranslate.router, looks.router, saving.router, computing.router,
                 generating.router, beaming.router, training.router):
        app.include_router(each, responses=RESPONSES)
    app.include_router(page)                 # last: what no route has taken is a file of the page, or nothing
    app.add_middleware(Guard, security=settings.security)
    return app


# ---------------------------------------------------------------------------------------------- routes

router = APIRouter(tags=["about"])


class Health(BaseModel):
    status: str


class Model(BaseModel):
    """A model that is served."""

    id: str
    name: str
    task: str
    family: str
    parameters: int
    context: int | None
    vocabulary: int
    languages: list[str] | None
    tabs: list[str] = Field(description="What can be done with it, in the tabs of the page.")
    fields: list[str] = Field(description="What a look at it may be asked with; it reads the first.")
    example: str
    examples: list[str]
    device: str
    steps: int
    trained_at: str
    problem: str | None = Field(None, description="Why it cannot be used, in one line; its run is damaged, perhaps.")


class Models(BaseModel):
    models: list[Model]


class Cards(BaseModel):
    """What the lab has found, as it wrote it."""

    cards: list[dict[str, Any]]


@router.get("/health")
async def health() -> Health:
    """Whether the server answers. It needs no token, and tells nothing else."""
    return Health(status="ok")


@router.get("/api/models")
async def models(request: Request) -> Models:
    """The models that are served."""
    registry: Registry = request.app.state.registry
    described = await run_in_threadpool(lambda: [about(opened) for opened in registry])
    return Models(models=[Model(**each) for each in described])


def about(opened: Opened) -> dict[str, Any]:
    return {**opened.describe(), "device": opened.device_name()}


@router.get("/api/lab")
async def lab(request: Request) -> Cards:
    """The results of the lab, each a card; none where no folder of results was given."""
    folder: Path | None = request.app.state.settings.lab
    return Cards(cards=[] if folder is None else await run_in_threadpool(read_cards, folder))


def read_cards(folder: Path) -> list[dict[str, Any]]:
    """Every result under the folder, in the order of the claims; what is no result is left out, and that is said."""
    from regard.lab.outcome import card_of, in_order

    found = []
    for path in sorted(folder.rglob("*.json")):
        try:
            if path.stat().st_size > LARGEST_CARD:
                raise ValueError(f"it has more than {LARGEST_CARD:,} bytes")
            card = card_of(path)
            if card is not None and not (isinstance(card["number"], int) and isinstance(card["name"], str)):
                raise TypeError("its number or its name is none")
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            log.warning("the lab's result %s is left out: %s", path, error)
            continue
        found += [card] if card is not None else []
    return [plain(card) for card in in_order(found)]


# ----------------------------------------------------------------------------------------------- page

page = APIRouter(include_in_schema=False)


@page.api_route("/", methods=["GET", "HEAD"])
@page.api_route("/{name}", methods=["GET", "HEAD"])
async def file(request: Request, name: str = "index.html") -> Response:
    """A file of the page. Only names that are in its folder are known, so that no other can be reached."""
    path = PAGE / name
    try:
        found = kept_file(name, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        raise Refusal(404, "there is nothing at this address") from None
    headers = {"ETag": found.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if found.etag in [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    gzipped = "gzip" in request.headers.get("accept-encoding", "")
    headers |= {"Content-Encoding": "gzip"} if gzipped else {}
    return Response(found.gzipped if gzipped else found.data, headers=headers, media_type=MEDIA[path.suffix])


@dataclass(frozen=True)
class PageFile:
    data: bytes
    gzipped: bytes
    etag: str


@functools.lru_cache(maxsize=256)
def kept_file(name: str, changed: int) -> PageFile:
    """A file of the page, read and packed once. Names that are not in its folder are not looked for anywhere else."""
    if name not in {path.name for path in PAGE.iterdir() if path.is_file() and path.suffix in MEDIA}:
        raise FileNotFoundError(name)
    data = (PAGE / name).read_bytes()
    return PageFile(data, gzip.compress(data, 6, mtime=0), f'"{hashlib.sha256(data).hexdigest()[:32]}"')
