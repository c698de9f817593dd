"""Limits on the work at one time: a few requests run, some wait, the rest are told to come again.

    answer = await run(request, function, *arguments)     # in a worker thread; 429 where too many wait, 503 where the
                                                          # wait was too long or the time is over

Nothing can stop a thread from outside, so that the work itself checks: a model that the registry opened calls `check`
before each pass. When a client goes away, or its time is over, the work ends at the next pass. Until then it keeps its
place, so that there are never more than `running` threads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from fastapi import Request

from regard.serve.refusals import Refusal

T = TypeVar("T")

RUNNING, QUEUED, SECONDS = 4, 32, 60.0
LOOK_UP = 0.2                                    # seconds between two checks of a waiting request for a stop
RETRY_AFTER = 2                                  # seconds, for a client that is told to come again
BODY = 1_000_000                                 # bytes
CHARACTERS = 10_000
BEAM, DRAWS = 16, 8


class Stopped(Exception):
    """Nobody waits for this work any more."""


class ClientGone(Refusal):
    def __init__(self) -> None:
        super().__init__(499, "the client went away")          # nobody hears it


class GatedRequest:
    """One request that passed the gate, or waits at it: its client, its time, and the thread that runs for it."""

    def __init__(self, gate: Gate):
        self.gate = gate
        self.until = time.monotonic() + gate.seconds
        self.gone = asyncio.Event()                            # the client left
        self.over = False                                      # answered: a thread that still runs is not wanted
        self.thread: asyncio.Future[Any] | None = None
        self.watcher: asyncio.Task[None] | None = None

    def stop(self) -> bool:
        return self.over or self.gate.closed or self.gone.is_set() or self.left() <= 0

    def left(self) -> float:
        return self.until - time.monotonic()

    def reason(self) -> Refusal:
        """Return the refusal that says why there is no answer."""
        if self.gone.is_set():
            return ClientGone()
        if self.gate.closed:
            return Refusal(503, "the server is stopping")
        return Refusal(503, f"this took more than the {self.gate.seconds:g} seconds a request may take: ask for less",
                       headers={"Retry-After": str(RETRY_AFTER)})

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Return the function's result, from a worker thread that has this task's context variables."""
        token = current.set(self)
        try:
            call = partial(copy_context().run, partial(function, *args))
        finally:
            current.reset(token)
        self.thread = asyncio.get_running_loop().run_in_executor(self.gate.threads, call)
        self.thread.add_done_callback(_retrieve)
        if not await self.first(self.thread) or self.stop():   # work that was asked to stop may give half an answer
            raise self.reason()
        try:
            return self.thread.result()
        except Stopped:
            raise self.reason() from None

    async def first(self, future: asyncio.Future[Any]) -> bool:
        """Return True if the future is done before the client leaves, the time is over, or the server is to stop."""
        gone = asyncio.ensure_future(self.gone.wait())
        try:
            while not (future.done() or self.stop()):   # another thread stops the server, and wakes nobody
                await asyncio.wait({future, gone}, timeout=min(LOOK_UP, max(0.0, self.left())),
                                   return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        return future.done()

    def leave(self) -> None:
        """Give the place back, as soon as nothing runs there."""
        self.over = True
        if self.watcher is not None:
            self.watcher.cancel()
        if self.thread is None or self.thread.done():
            self.gate.release()
        else:
            self.thread.add_done_callback(lambda _: self.gate.release())


class Gate:
    """The places: `running` to work in, and `queued` to wait in."""

    def __init__(self, running: int = RUNNING, queued: int = QUEUED, seconds: float = SECONDS):
        self.limit, self.queued, self.seconds = running, queued, seconds
        self.running = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.threads = ThreadPoolExecutor(running, thread_name_prefix="regard")
        self.closed = False

    async def enter(self, request: Request) -> GatedRequest:
        """Return a place for this request; the caller must `leave` it."""
        gated = GatedRequest(self)
        if self.closed:
            raise gated.reason()
        gated.watcher = asyncio.ensure_future(_watch(request, gated))
        try:
            await self._turn(gated)
        except BaseException:
            gated.watcher.cancel()
            raise
        return gated

    async def _turn(self, gated: GatedRequest) -> None:
        if self.running < self.limit and not self.waiting:
            self.running += 1
            return
        if len(self.waiting) >= self.queued:
            raise Refusal(429, f"{self.limit} requests are running and {self.queued} waiting: try again in "
                               f"{RETRY_AFTER} seconds", code="too_many_requests",
                          headers={"Retry-After": str(RETRY_AFTER)})
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            if not await gated.first(turn):
                raise gated.reason()
        except BaseException:
            if turn.done():                                    # called at the very moment of giving up
                self.release()
            else:
                self.waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a free place to the first request that waits."""
        if self.waiting:
            self.waiting.popleft().set_result(None)
        else:
            self.running -= 1

    def stop(self) -> None:
        """Let nobody in any more, and end what runs or waits. Any thread may call it, at any moment."""
        self.closed = True

    def close(self) -> None:
        """Stop, and drop the threads."""
        self.stop()
        self.threads.shutdown(wait=False, cancel_futures=True)


current: ContextVar[GatedRequest | None] = ContextVar("regard_gated", default=None)


async def run(request: Request, function: Callable[..., T], *args: Any) -> T:
    """Return the function's result, from a worker thread; the request holds a place at the gate meanwhile."""
    gated: GatedRequest = await request.app.state.gate.enter(request)
    try:
        return await gated.run(function, *args)
    finally:
        gated.leave()


def check() -> None:
    """End the work if nobody waits for it; outside a request, do nothing."""
    gated = current.get()
    if gated is not None and gated.stop():
        raise Stopped


async def _watch(request: Request, gated: GatedRequest) -> None:
    """Note when the client goes away. The body has been read: nothing else can come."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            gated.gone.set()
            return


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a thread that nobody waits for any more, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()


# ------------------------------------------------------------------------------------------------ locks


class FairLock:
    """A lock that is given in the order of asking; a thread that waits checks meanwhile whether it is still wanted.

    `threading.Lock` may go to the same thread over and over: then one long text would starve all others.
    """

    PATIENCE = 0.1                                             # seconds between two checks

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()                   # the first has the lock

    @property
    def taken(self) -> bool:
        return bool(self._queue)

    def acquire(self) -> None:
        turn = object()
        with self._changed:
            self._queue.append(turn)
            try:
                while self._queue[0] is not turn:
                    self._changed.wait(self.PATIENCE)
                    check()
            except BaseException:
                self._queue.remove(turn)
                self._changed.notify_all()
                raise

    def release(self) -> None:
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: Any) -> None:
        self.release()


def in_turns(lock: FairLock, items: Iterator[T]) -> Iterator[T]:
    """Yield the items, holding the lock only while the next one is made: several texts are written side by side."""
    end: Any = object()
    while True:
        with lock:
            check()
            item = next(items, end)
        if item is end:
            return
        yield item
