"""/health, /api/models and /api/lab: the server, the models that it serves, and the results of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from regard.serve.damage import plain
from regard.serve.refusals import log
from regard.serve.registry import ModelDescription, Registry

LARGEST_CARD = 4_000_000                     # bytes of one result of the lab

router = APIRouter(tags=["about"])


class Health(BaseModel):
    status: str


class Models(BaseModel):
    models: list[ModelDescription]


class Cards(BaseModel):
    """Results of the lab, as it wrote them."""

    cards: list[dict[str, Any]]


@router.get("/health")
async def health() -> Health:
    """Say that the server answers. It needs no token, and tells nothing else."""
    return Health(status="ok")


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> JSONResponse:
    """The description of all routes; the first time it imports the modules of the results, in a thread."""
    return JSONResponse(await run_in_threadpool(request.app.openapi))


@router.get("/api/models")
async def models(request: Request) -> Models:
    """The models that are served."""
    registry: Registry = request.app.state.registry
    return Models(models=await run_in_threadpool(lambda: [opened.describe() for opened in registry]))


@router.get("/api/lab")
async def lab(request: Request) -> Cards:
    """The results of the lab, each a card; none where no folder of results was given."""
    folder: Path | None = request.app.state.settings.lab
    return Cards(cards=[] if folder is None else await run_in_threadpool(read_cards, folder))


def read_cards(folder: Path) -> list[dict[str, Any]]:
    """Return every result under the folder, in the order of the claims; a file that is none is logged and left out."""
    from regard.lab.outcome import in_order, load_card

    cards = []
    for path in sorted(folder.rglob("*.json")):
        try:
            if path.stat().st_size > LARGEST_CARD:
                raise ValueError(f"it has more than {LARGEST_CARD:,} bytes")
            card = load_card(path)
            if card is not None and not (isinstance(card["number"], int) and isinstance(card["name"], str)):
                raise TypeError("its number or its name is none")
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            log.warning("the lab's result %s is left out: %s", path, error)
            continue
        cards += [card] if card is not None else []
    return [plain(card) for card in in_order(cards)]
