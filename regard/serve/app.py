"""The application: the page, the routes it asks, and those that other tools know.

    app = make_app(Registry(["runs/notes"]))
    uvicorn.run(app)                         # or `regard serve runs/notes`, which also minds who may connect
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from regard import __version__
from regard.serve import refusals
from regard.serve.held_looks import HeldLooks
from regard.serve.limits import Gate
from regard.serve.refusals import RESPONSES
from regard.serve.registry import Registry
from regard.serve.result_json import describe
from regard.serve.routes import about, beam, compute, libretranslate, look, next_token, openai, page, runs
from regard.serve.security import Guard
from regard.serve.server import ServerSettings


def make_app(registry: Registry, settings: ServerSettings | None = None) -> FastAPI:
    """Return the application with all routes, behind the guard."""
    settings = settings or ServerSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if app.state.gate.closed:            # started once more
            app.state.gate = Gate(settings.running, settings.queued, settings.seconds)
        try:
            yield
        finally:
            app.state.gate.close()

    app = FastAPI(
        title="Regard", version=__version__, openapi_url=None, lifespan=lifespan,
        description="Trained sequence models, looked at and used. Errors are one line, in OpenAI's shape.")
    app.state.registry, app.state.settings = registry, settings
    app.state.looks, app.state.runs, app.state.listening = HeldLooks(), runs.follow_runs(registry, settings.runs), 0
    app.state.gate = Gate(settings.running, settings.queued, settings.seconds)
    refusals.install(app)
    for each in (about, openai, libretranslate, look, compute, next_token, beam, runs):
        app.include_router(each.router, responses=RESPONSES)
    app.include_router(page.router)          # last: an address that no route has is a file of the page, or nothing
    app.openapi = lambda: describe(app)      # type: ignore[method-assign]
    app.add_middleware(Guard, security=settings.security)
    return app
