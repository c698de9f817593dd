"""/api/runs: the runs served and those beside them, their curves, and their samples, live.

The events of a run are its new lines, as they come: `metrics` and `sample`, each with a cursor as its id, so that a
client that lost the connection goes on where it was. `reset` says that the log is another one now (the run was
resumed), or that too many lines have come to send each: then the client asks for the curves again.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from regard.serve.damage import Damaged
from regard.serve.refusals import Refusal, log
from regard.serve.registry import Registry
from regard.serve.run_curves import curves
from regard.serve.run_logs import FollowedRun, Runs

router = APIRouter(tags=["training"])

POLL = 0.2                     # seconds between two looks at a log
AWAKE = 15.0                   # seconds after which something is sent, so that a client that left is noticed
MOST_LINES = 2000              # sent one by one; after more, a client is told to ask for the curves
LISTENERS = 64                 # at once
MOST_SAMPLES = 400


class RunList(BaseModel):
    runs: list[dict[str, Any]]


class Curves(BaseModel):
    """Every series of a run, thinned so that the least and the greatest of each bucket are still there."""

    cursor: str
    lines: int
    series: dict[str, dict[str, Any]]


class SampleList(BaseModel):
    samples: list[dict[str, Any]]


def follow_runs(registry: Registry, folder: Path | None) -> Runs:
    """Return the runs of the folder, or of the served ones' folders; they are looked for with each list."""
    served = {opened.id: Path(opened.folder.path) for opened in registry}
    parents = list(dict.fromkeys(path.resolve().parent for path in served.values()))
    return Runs(served, parents if folder is None else [folder])


async def run_of(request: Request, id: str) -> FollowedRun:
    """Return the run, with its logs parsed to their ends."""
    run: FollowedRun | None = await run_in_threadpool(request.app.state.runs.get, id)
    if run is None:
        raise Refusal(404, f"there is no run {id!r}", param="id", code="run_not_found")
    try:
        await run_in_threadpool(run.advance)
    except Damaged as damaged:
        raise Refusal(503, f"the run {id} cannot be followed: {damaged}", param="id", code="run_damaged") from None
    return run


@router.get("/api/runs")
async def runs(request: Request) -> RunList:
    """The runs that are served, and those in their folders."""
    return RunList(runs=await run_in_threadpool(request.app.state.runs.about))


Step = Annotated[float | None, Query(allow_inf_nan=False)]


@router.get("/api/runs/{id}/metrics")
async def metrics(
    request: Request, id: str, points: Annotated[int, Query(ge=4, le=200_000)] = 2000,
    start: Annotated[int, Query(alias="from", ge=0, lt=2**53)] = 0, first: Step = None, last: Step = None,
) -> Curves:
    """The curves from line `from` on; `first` and `last` are steps between which they are wanted in more detail."""
    run = await run_of(request, id)
    low, high = -math.inf if first is None else first, math.inf if last is None else last

    def draw() -> Curves:
        with run.lock:
            return Curves(cursor=run.cursor, lines=run.table.rows, series=curves(run, points, start, low, high))

    return await run_in_threadpool(draw)


@router.get("/api/runs/{id}/samples")
async def samples(request: Request, id: str) -> SampleList:
    """The samples that the run wrote at its validations; of very many, some hundreds from first to last."""
    run = await run_of(request, id)

    def thin() -> list[dict[str, Any]]:
        with run.lock:
            every = max(1, -(-len(run.samples) // MOST_SAMPLES))
            return [*run.samples[:-1:every], *run.samples[-1:]]

    return SampleList(samples=await run_in_threadpool(thin))


@router.get("/api/runs/{id}/events", response_class=StreamingResponse, responses={
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "the lines as they come"}})
async def events(request: Request, id: str, after: Annotated[str, Query(max_length=100)] = "") -> StreamingResponse:
    """New lines as they come. They begin after the cursor `after`, or after the `Last-Event-ID`; without one, now."""
    run = await run_of(request, id)
    if request.app.state.listening >= LISTENERS:
        raise Refusal(429, f"{LISTENERS} clients follow runs already: close one", headers={"Retry-After": "5"})
    cursor = request.headers.get("last-event-id") or after or run.cursor
    return StreamingResponse(follow(request, run, cursor), media_type="text/event-stream",
                             headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def follow(request: Request, run: FollowedRun, cursor: str) -> AsyncIterator[bytes]:
    """Yield the events of a run until the client leaves."""
    state = request.app.state
    state.listening += 1
    try:
        yield b": following\nretry: 1000\n\n"
        quiet = 0.0
        while not (state.gate.closed or await request.is_disconnected()):
            try:
                await run_in_threadpool(run.advance)
            except Damaged as damaged:
                log.warning("the run %s is followed no further: %s", run.id, damaged)
                return
            cursor, messages = news(run, cursor)
            for message in messages:
                yield message
            quiet = 0.0 if messages else quiet + POLL
            if quiet >= AWAKE:
                quiet = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(POLL)
    finally:
        state.listening -= 1


def news(run: FollowedRun, cursor: str) -> tuple[str, list[bytes]]:
    """Return the cursor of now, and the events since the given one."""
    with run.lock:
        now = run.cursor
        if now == cursor:
            return now, []
        place = run.after(cursor)
        if place is None or run.table.rows - place[0] > MOST_LINES:
            return now, [event("reset", now, {"lines": run.table.rows, "samples": len(run.samples)})]
        rows, samples = place
        lines = [event("metrics", run.cursor_at(row + 1, samples), run.row(row)) for row in range(rows, run.table.rows)]
        written = [event("sample", run.cursor_at(run.table.rows, number + 1), run.samples[number])
                   for number in range(samples, len(run.samples))]
        return now, [*lines, *written]


def event(name: str, cursor: str, value: Any) -> bytes:
    return f"event: {name}\nid: {cursor}\ndata: {json.dumps(value)}\n\n".encode()
