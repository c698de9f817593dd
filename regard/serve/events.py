"""Server-sent events from work that is done in a worker thread, one item at a time.

An item is made after the client has taken the one before it: a slow client slows nobody else, and one that leaves ends
the work. The request keeps its place at the gate until the last byte is on its way, or the time is over.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.serve.limits import ClientGone, GatedRequest
from regard.serve.refusals import refusal_of

DONE = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n\n"


class Events(Response):
    """Each item of the iterator as an event, then [DONE]. It leaves the place at the gate at the end."""

    media_type = "text/event-stream"

    def __init__(self, gated: GatedRequest, items: Iterator[Any]):
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.gated, self.items = gated, items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.within(send({"type": "http.response.start", "status": 200, "headers": self.raw_headers}))
            await self.deliver(scope, send)
        except (TimeoutError, ClientGone):
            return                                             # nobody reads, or far too slowly
        finally:
            self.gated.leave()

    async def deliver(self, scope: Scope, send: Send) -> None:
        async def say(data: bytes, more: bool = True) -> None:
            await self.within(send({"type": "http.response.body", "body": data, "more_body": more}))

        end: Any = object()
        try:
            while (item := await self.gated.run(next, self.items, end)) is not end:
                await say(event(item))
        except (TimeoutError, ClientGone):
            raise
        except Exception as error:                             # the status is long sent: the line comes as an event
            await say(event(refusal_of(error, Request(scope)).body()), more=False)
            return
        await say(DONE, more=False)

    async def within(self, sending: Any) -> None:
        """Send within the request's time and one second more, in which a client can be told that it is over."""
        await asyncio.wait_for(sending, max(0.0, self.gated.left()) + 1.0)
