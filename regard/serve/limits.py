"""How much is done at once, and for how long: a few requests run, some wait, the rest are told to come again.

    async with gate(request):                         # 429 where too many wait, 503 where the wait was too long
        found = await run(function, *arguments)       # in a worker thread; 503 when the time is over

Nothing can stop a thread from outside, so that the work asks: a model that was opened by the registry asks before each
pass (`check`), and a function with a parameter `stop` is given something to ask. When a client goes away, or its time
is over, the work ends at the next pass. Until then it keeps its place, so that there are never more than `running`
threads.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from fastapi import Request

from regard.serve.refusals import Refusal

T = TypeVar("T")

RUNNING, QUEUED, SECONDS = 4, 32, 60.0
LOOK_UP = 0.2                                    # seconds after which who waits sees whether the server is to stop
RETRY_AFTER = 2                                  # seconds, for who is told to come again
BODY = 1_000_000                                 # bytes
CHARACTERS = 10_000
BEAM, DRAWS = 16, 8


class Stopped(Exception):
    """Nobody waits for this work any more."""


class ClientGone(Refusal):
    def __init__(self) -> None:
        super().__init__(499, "the client went away")          # nobody hears it


class Job:
    """One request that has its place: who waits for it, until when, and what runs for it."""

    def __init__(self, gate: Gate):
        self.gate = gate
        self.until = time.monotonic() + gate.seconds
        self.gone = asyncio.Event()                            # the client left
        self.over = False                                      # answered: whatever still runs is not wanted
        self.thread: asyncio.Future[Any] | None = None
        self.watcher: asyncio.Task[None] | None = None

    def stop(self) -> bool:
        return self.over or self.gate.closed or self.gone.is_set() or self.left() <= 0

    def left(self) -> float:
        return self.until - time.monotonic()

    def reason(self) -> Refusal:
        """Why nothing came of it."""
        if self.gone.is_set():
            return ClientGone()
        if self.gate.closed:
            return Refusal(503, "the server is stopping")
        return Refusal(503, f"this took more than the {self.gate.seconds:g} seconds a request may take: ask for less",
                       headers={"Retry-After": str(RETRY_AFTER)})

    async def run(self, function: Callable[..., T], *args: Any, **named: Any) -> T:
        """What the function gives, from a worker thread; its context variables are this task's."""
        if "stop" in _parameters(function):
            named["stop"] = self.stop
        token = current.set(self)
        try:
            call = partial(copy_context().run, partial(function, *args, **named))
        finally:
            current.reset(token)
        self.thread = asyncio.get_running_loop().run_in_executor(self.gate.threads, call)
        self.thread.add_done_callback(_heard)
        if not await self.first(self.thread) or self.stop():   # what was asked to stop may give half an answer
            raise self.reason()
        try:
            return self.thread.result()
        except Stopped:
            raise self.reason() from None

    async def first(self, future: asyncio.Future[Any]) -> bool:
        """Whether the future is done before the client leaves, the time is over, or the server is to stop."""
        gone = asyncio.ensure_future(self.gone.wait())
        try:
            while not (future.done() or self.stop()):   # who stops the server is another thread: nobody is woken
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

    async def enter(self, request: Request) -> Job:
        """A place for this request; the caller must `leave` it."""
        job = Job(self)
        if self.closed:
            raise job.reason()
        job.watcher = asyncio.ensure_future(_watch(request, job))
        try:
            await self._turn(job)
        except BaseException:
            job.watcher.cancel()
            raise
        return job

    async def _turn(self, job: Job) -> None:
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
            if not await job.first(turn):
                raise job.reason()
        except BaseException:
            if turn.done():                                    # called at the very moment of giving up
                self.release()
            else:
                self.waiting.remove(turn)
            raise

    def release(self) -> None:
        """A place is free: the first who waits has it."""
        if self.waiting:
            self.waiting.popleft().set_result(None)
        else:
            self.running -= 1

    def stop(self) -> None:
        """Nobody comes in any more, and nothing that runs or waits is wanted. Any thread may call it, at any moment."""
        self.closed = True

    def close(self) -> None:
        """The same, and no thread is kept."""
        self.stop()
        self.threads.shutdown(wait=False, cancel_futures=True)


current: ContextVar[Job | None] = ContextVar("regard_job", default=None)


@asynccontextmanager
async def gate(request: Request) -> AsyncIterator[Job]:
    """A place to work in, for as long as the block lasts."""
    job = await request.app.state.gate.enter(request)
    token = current.set(job)
    try:
        yield job
    finally:
        current.reset(token)
        job.leave()


async def run(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """The function's result, from a worker thread of the job whose gate was entered."""
    job = current.get()
    assert job is not None, "enter the gate first: async with gate(request)"
    return await job.run(function, *args, **named)


def check() -> None:
    """Ends the work, if nobody waits for it; elsewhere than in a job it does nothing."""
    job = current.get()
    if job is not None and job.stop():
        raise Stopped


async def _watch(request: Request, job: Job) -> None:
    """Notes that the client went away. The body has been read: all that can come is that."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            job.gone.set()
            return


def _parameters(function: Callable[..., Any]) -> Any:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):                            # some built-in functions do not tell
        return {}


def _heard(future: asyncio.Future[Any]) -> None:
    """An exception of a thread that nobody waits for any more is no news."""
    if not future.cancelled():
        future.exception()


# ------------------------------------------------------------------------------------------------ locks


class FairLock:
    """A lock that is given in the order of asking; who waits asks meanwhile whether it is still wanted.

    `threading.Lock` may go to the same thread over and over: then one long text would starve all others.
    """

    PATIENCE = 0.1                                             # seconds between two questions

    def __init__(self) -> None:
        self._own = threading.Lock()                           # guards the two below
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    def acquire(self) -> None:
        with self._own:
            if not self._taken:
                self._taken = True
                return
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            while not turn.wait(self.PATIENCE):
                check()
        except BaseException:
            self._give_up(turn)
            raise

    def release(self) -> None:
        with self._own:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken = False

    def _give_up(self, turn: threading.Event) -> None:
        with self._own, suppress(ValueError):
            self._waiting.remove(turn)
            return
        self.release()                                         # it was given at that very moment

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: Any) -> None:
        self.release()


def in_turns(lock: FairLock, items: Iterator[T]) -> Iterator[T]:
    """The items, the lock being held only while the next one is made: several texts are written side by side."""
    end: Any = object()
    while True:
        with lock:
            check()
            item = next(items, end)
        if item is end:
            return
        yield item
