"""/api/compute: the arithmetic behind one cell of a look. /api/presets: worked examples, to step through the same way.

    POST /api/compute          the steps of a cell, and what is said next; with edited scores, what would be said
    GET  /api/presets          rows of attention, and worked examples, by name
    GET  /api/presets/{name}   the steps of a row
    GET  /api/presets/{name}/lines      of a worked example: what our code gives, and what it has to be
"""

from __future__ import annotations

import functools
import threading
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from regard.serve.held_looks import HeldLook
from regard.serve.limits import run
from regard.serve.refusals import Refusal
from regard.serve.request_fields import Place, StrictRequest
from regard.serve.result_json import answers, send

router = APIRouter(prefix="/api", tags=["computing"])

MOST_SCORES = 8192                           # columns of a row whose scores are edited
LARGEST = 1e6                                # that a score may be
Counted = Annotated[int, Field(ge=1, lt=2**31)]
EditedScore = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
ARITHMETIC = answers("regard.look.arithmetic", "Arithmetic")


class CellRequest(StrictRequest):
    """A cell of a look; layers, heads and channels count from 1, rows and columns from 0."""

    look: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    track: Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]
    layer: Counted
    head: Counted
    row: Place
    column: Place
    channel: Counted | None = Field(None,
                                    description="Of a kernel: the channel of the group that is worked out by itself.")
    scores: Annotated[list[EditedScore | None], Field(max_length=MOST_SCORES)] | None = Field(
        None, description="In the place of the row's own scores; null where nothing is to be read.")


class About(BaseModel):
    name: str
    title: str
    about: str
    columns: list[str]
    base: str
    bases: list[str]


class Worked(BaseModel):
    """A worked example of the lectures."""

    name: str = Field(validation_alias="preset", description="Among the presets: that of the lab, after `worked-`.")
    title: str
    source: str
    about: str
    presets: list[str] = Field(description="The rows of attention in it that can be stepped through.")


class WorkedLine(BaseModel):
    """One thing worked out. Numbers stand apart by spaces, as fractions wherever they are."""

    what: str
    by: str = Field(description="The function or layer of ours that worked it out.")
    ours: str
    expected: str
    row: int = Field(description="Of a matrix, how many numbers are in a row; else 0.")
    equal: bool


class WorkedLines(Worked):
    lines: list[WorkedLine]


class Presets(BaseModel):
    presets: list[About]
    worked: list[Worked]


@router.post("/compute", **ARITHMETIC)
async def compute(request: Request, cell: CellRequest) -> Response:
    """Work out one cell with the model's own numbers, step by step."""
    held: HeldLook = request.app.state.looks.get(cell.look)
    held.track(cell.track)
    return await run(request, work_out, held, cell)


def work_out(held: HeldLook, cell: CellRequest) -> Response:
    from regard.look.arithmetic import arithmetic

    with held.opened.lock:
        return send(arithmetic(held.opened.trained, held.look, cell.track, cell.layer, cell.head, cell.row, cell.column,
                               cell.scores, cell.channel))


@router.get("/presets")
def presets() -> Presets:
    """Worked examples of the lectures: rows of attention to step through, and all of them line by line."""
    from regard.lab.worked import examples
    from regard.look.presets import PRESETS

    return Presets(presets=[About(**preset.as_dict()) for preset in PRESETS.values()],
                   worked=[Worked(**each.as_dict()) for each in examples().values()])


Name = Annotated[str, Path(pattern="^[a-z0-9-]{1,40}$")]


@router.get("/presets/{name}", **ARITHMETIC)
def preset(
    name: Name, column: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    base: Literal["e", "3"] | None = None,
) -> Response:
    """The steps of a row, for the selected column."""
    from regard.look.presets import PRESETS

    if name not in PRESETS:
        raise Refusal(404, f"there is no preset {name}", param="name", code="preset_unknown")
    return send(PRESETS[name].arithmetic(column, base))


@router.get("/presets/{name}/lines")
async def lines(request: Request, name: Name) -> WorkedLines:
    """Every line of a worked example, worked out by our own code in this process."""
    examples = await run(request, work_out_examples)
    if name not in examples:
        raise Refusal(404, f"there is no worked example {name}", param="name", code="preset_unknown")
    return WorkedLines(**examples[name])


working = threading.Lock()                   # who asks at the same time waits for the first, for less than a second


def work_out_examples() -> dict[str, dict[str, Any]]:
    with working:
        return _work_out_examples()


@functools.cache
def _work_out_examples() -> dict[str, dict[str, Any]]:
    from regard.lab.worked import as_dicts

    return {each["preset"]: each for each in as_dicts()}
