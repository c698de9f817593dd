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
from pydantic import BaseModel, ConfigDict, Field

from regard.serve.limits import gate, run
from regard.serve.looks import Held, looks_of
from regard.serve.refusals import Refusal

router = APIRouter(prefix="/api", tags=["computing"])

MOST_SCORES = 8192                           # columns of a row whose scores are edited
LARGEST = 1e6                                # that a score may be
Place = Annotated[int, Field(ge=0, lt=2**31)]
Counted = Annotated[int, Field(ge=1, lt=2**31)]
Score = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]


class Cell(BaseModel):
    """A cell of a look; layers, heads and channels count from 1, rows and columns from 0."""

    model_config = ConfigDict(extra="forbid")

    look: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    track: Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]
    layer: Counted
    head: Counted
    row: Place
    column: Place
    channel: Counted | None = Field(None,
                                    description="Of a kernel: the channel of the group that is worked out by itself.")
    scores: Annotated[list[Score | None], Field(max_length=MOST_SCORES)] | None = Field(
        None, description="In the place of the row's own scores; null where nothing is to be read.")


class Quantity(BaseModel):
    """A number, a vector or a matrix, and how it follows from others."""

    name: str
    symbol: str
    about: str
    over: str = Field(description="What its entries are: channels, columns, orders, states, group; empty: a number.")
    op: str = Field(description="The operation it is worked out by; empty: it was given.")
    of: list[str]
    how: dict[str, float]
    shape: list[int]
    dtype: Literal["float32", "float64"]
    values: str = Field(description="Base64, little-endian.")
    checked: bool = Field(description="Worked out, and the values are PyTorch's own: to compare with.")
    exact: list[str] = Field(description="As fractions, where they are known.")


class Step(BaseModel):
    title: str
    formula: str
    about: str
    shows: list[str]


class Bar(BaseModel):
    id: int
    piece: str
    before: float
    after: float | None


class Rest(BaseModel):
    before: float
    after: float | None


class NextTokens(BaseModel):
    """What a row says, as it is and with edited scores."""

    row: int
    after: str
    in_place: bool
    tokens: list[Bar]
    rest: Rest
    moved: float | None = Field(description="Half of the summed differences; null where nothing was edited.")


class Sheet(BaseModel):
    """The arithmetic, to be read step by step and done again."""

    kind: str
    about: str
    names: dict[str, list[str]]
    column: int
    quantities: list[Quantity]
    steps: list[Step]
    next: NextTokens | None = None
    channels: tuple[int, int] | None = None
    channel: int | None = None
    edited: dict[str, list[float]] = Field({}, description="Weights and output of the row as it was run again.")


class About(BaseModel):
    name: str
    title: str
    about: str
    columns: list[str]
    base: str
    bases: list[str]


class Worked(BaseModel):
    """A worked example of the lectures."""

    name: str = Field(description="Among the presets: that of the lab, after `worked-`.")
    title: str
    source: str
    about: str
    presets: list[str] = Field(description="The rows of attention in it that can be stepped through.")


class Line(BaseModel):
    """One thing worked out. Numbers stand apart by spaces, as fractions wherever they are."""

    what: str
    by: str = Field(description="The function or layer of ours that worked it out.")
    ours: str
    expected: str
    row: int = Field(description="Of a matrix, how many numbers are in a row; else 0.")
    equal: bool


class Lines(Worked):
    lines: list[Line]


class Presets(BaseModel):
    presets: list[About]
    worked: list[Worked]


@router.post("/compute")
async def compute(request: Request, cell: Cell) -> Sheet:
    """What is worked out for one cell, with the model's own numbers."""
    held = looks_of(request).get(cell.look)
    if cell.track not in [track.name for track in held.look.tracks]:
        raise Refusal(404, f"this look has no track {cell.track}", param="track", code="track_unknown")
    async with gate(request):
        return Sheet(**await run(worked_out, held, cell))


def worked_out(held: Held, cell: Cell) -> dict[str, Any]:
    from regard.look.arithmetic import arithmetic

    with held.opened.lock:
        told = arithmetic(held.opened.trained, held.look, cell.track, cell.layer, cell.head, cell.row, cell.column,
                          cell.scores, cell.channel)
    return told.as_dict()


@router.get("/presets")
def presets() -> Presets:
    """Worked examples of the lectures: rows of attention to step through, and all of them line by line."""
    from regard.lab.worked import examples
    from regard.look.presets import PRESETS

    return Presets(presets=[About(**preset.as_dict()) for preset in PRESETS.values()],
                   worked=[Worked(**as_preset(each.as_dict())) for each in examples().values()])


def as_preset(example: dict[str, Any]) -> dict[str, Any]:
    return example | {"name": example["preset"]}


Name = Annotated[str, Path(pattern="^[a-z0-9-]{1,40}$")]


@router.get("/presets/{name}")
def preset(
    name: Name, column: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    base: Literal["e", "3"] | None = None,
) -> Sheet:
    """The steps of a row, for the selected column."""
    from regard.look.presets import PRESETS

    if name not in PRESETS:
        raise Refusal(404, f"there is no preset {name}", param="name", code="preset_unknown")
    chosen = PRESETS[name]
    return Sheet(kind="attention", about=chosen.title, names={"columns": list(chosen.columns)}, column=column,
                 **chosen.sheet(column, base).as_dict())


@router.get("/presets/{name}/lines")
async def lines(request: Request, name: Name) -> Lines:
    """Every line of a worked example, worked out by our own code in this process."""
    async with gate(request):
        found = await run(all_worked)
    if name not in found:
        raise Refusal(404, f"there is no worked example {name}", param="name", code="preset_unknown")
    return Lines(**found[name])


working = threading.Lock()                   # who asks at the same time waits for the first, for less than a second


def all_worked() -> dict[str, dict[str, Any]]:
    with working:
        return _all_worked()


@functools.cache
def _all_worked() -> dict[str, dict[str, Any]]:
    from regard.lab.worked import as_dicts

    return {each["preset"]: as_preset(each) for each in as_dicts()}
