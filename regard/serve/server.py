"""The server: a socket first, so that a port in use is refused at once; then the application, and uvicorn around it.

    with StopSignals() as signals:
        serve(listen("127.0.0.1", 8000), registry, settings, signals)

Connections are few and impatient: one that does not finish its request's head in time is closed, and so is one that
does not take its answer. Otherwise a client that opens connections and sends nothing could keep everybody out. One that
sends slowly, a byte now and then, could still: so when all connections are taken, a new one takes the place of the one
that has kept us waiting for longest, of the client that has the most. Behind a proxy all clients have one address, and
then it is simply the one that has kept us waiting for longest. Nobody who takes an answer as it comes is hung up on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import SettingError
from regard.serve.limits import QUEUED, RUNNING, SECONDS
from regard.serve.registry import Registry
from regard.serve.security import FULL, Security
from regard.serve.stop_signals import StopSignals

CONNECTIONS = 128
OVERFLOW = 128                 # more, that are told to come again; `/health` is answered there
GRACE = 0.1                    # seconds in which a connection is read before it can count as keeping us waiting
PATIENCE = 10.0                # seconds for the head of a request, and for the rest of an answer to be taken
GOODBYE = 2                    # seconds for what still runs when the server is asked to stop

log = logging.getLogger("regard.serve")


@dataclass(frozen=True)
class ServerSettings:
    """Settings of the server; the limits are on by default."""

    security: Security = field(default_factory=Security)
    runs: Path | None = None                 # a folder of runs whose training is shown; None: of the served ones
    lab: Path | None = None                  # a folder of the lab's results
    running: int = RUNNING                   # requests at once
    queued: int = QUEUED                     # that may wait
    seconds: float = SECONDS                 # that one may take


class Impatient(H11Protocol):
    """HTTP/1.1 that waits for nobody."""

    def connection_made(self, transport: asyncio.Transport) -> None:               # type: ignore[override]
        super().connection_made(transport)
        self.waiting: asyncio.TimerHandle | None = None
        self.watched = False
        self.begin_waiting()
        inner = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope[FULL] = self.too_many() > 0              # the guard refuses it, unless it asks whether we are well
            await inner(scope, receive, send)

        self.app = app
        self.expect_head()
        if (beyond := self.make_room()) > OVERFLOW:
            self.transport.abort()                         # too many even to say so
        elif beyond > 0:
            self.loop.call_later(GRACE, self.make_room)

    # ------------------------------------------------------------------------------------ many at once

    @property
    def others(self) -> Iterable[Any]:
        """Every connection, this one included: all are of this class."""
        return self.connections

    def too_many(self) -> int:
        """Return how many connections there are beyond the limit; those that are being closed do not count."""
        return sum(not each.transport.is_closing() for each in self.others) - CONNECTIONS

    def make_room(self) -> int:
        """Close the connections that have kept us waiting for longest, of the client that has the most of them, until
        there are few enough; return how many are still too many, as they are being answered or only just came."""
        beyond = self.too_many()
        while beyond > 0 and (idle := [each for each in self.others
                                       if each is not self and each.had_grace and each.keeps_us_waiting()]):
            held = Counter(address_of_client(each) for each in self.others)
            min(idle, key=lambda each: (-held[address_of_client(each)], each.since)).transport.abort()
            beyond -= 1
        return beyond

    def begin_waiting(self) -> None:
        """Wait for the next request from now on, and give it its grace.

        The grace ends by a timer, not by the clock: the loop looks for what has come before it runs its timers, so that
        a loop that was held up has read what it was sent meanwhile.
        """
        self.since, self.had_grace = self.loop.time(), False
        self.loop.call_later(GRACE, self.end_grace, self.since)

    def end_grace(self, since: float) -> None:
        self.had_grace = self.had_grace or since == self.since

    def keeps_us_waiting(self) -> bool:
        """Return True if it is the client's turn: to send the rest of a request, or to take more of an answer."""
        waits = self.between_requests() or self.cycle.more_body or self.flow.write_paused
        return waits and not self.transport.is_closing()

    # ------------------------------------------------------------------------------------ patience

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.between_requests():
            if self.waiting is None:                       # the first bytes of the next one: it has its time
                self.expect_head()
        else:
            self.stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.begin_waiting()
        self.watch_writing()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.watch_writing()

    def watch_writing(self) -> None:
        """While the client has something to take, check now and then that it becomes less."""
        if not self.watched and self.transport.get_write_buffer_size():
            self.watched = True
            self.loop.call_later(PATIENCE, self.abort_if_stuck, self.transport.get_write_buffer_size())

    def between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def expect_head(self) -> None:
        self.waiting = self.loop.call_later(PATIENCE, self.give_up)

    def stop_waiting(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def give_up(self) -> None:
        self.waiting = None
        if self.between_requests():
            self.transport.abort()

    def abort_if_stuck(self, before: int) -> None:
        self.watched = False
        if self.transport.is_closing() and self.transport.get_write_buffer_size() >= before > 0:
            self.transport.abort()
        else:
            self.watch_writing()


def address_of_client(connection: Any) -> str:
    return connection.client[0] if connection.client else ""


class Server(uvicorn.Server):
    """A server that ends the running requests when it stops, in place of waiting for the last word of every text."""

    def stop(self) -> None:
        self.config.app.state.gate.stop()                  # type: ignore[union-attr]
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:           # type: ignore[override]
        """Leave our handlers as they are: uvicorn's would leave a moment without any, before and after."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 is any that is free."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM,
                                                      flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(CONNECTIONS)
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingError(
            f"cannot listen at {host}, port {port} ({reason}): try another --port, or 0 for any") from None
    return listening


def address_of(listening: socket.socket, host: str) -> str:
    """Return the address to open in a browser."""
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname(), "": socket.gethostname()}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}"


def serve(
    listening: socket.socket, registry: Registry, settings: ServerSettings, signals: StopSignals, warm: bool = True
) -> None:
    """Serve until a signal says to stop."""
    from regard.serve.app import make_app

    signals.check()                                        # that was a slow import

    if warm:
        threading.Thread(target=warm_up, args=(registry,), daemon=True).start()
    server = Server(configure(make_app(registry, settings)))
    # We log what matters; uvicorn would also log every client that breaks off.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    signals.then(server.stop)
    server.run(sockets=[listening])


def configure(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app, http=Impatient, ws="none", loop="asyncio", lifespan="on", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, timeout_keep_alive=5,
        timeout_graceful_shutdown=GOODBYE, h11_max_incomplete_event_size=32 * 1024)


def warm_up(registry: Registry) -> None:
    """Load what is slow while the page is being opened: the library, and the first model."""
    for opened in registry:
        try:
            _ = opened.trained
        except Exception as error:                         # a request for it will get an answer; here it is logged
            log.warning("%s was not loaded ahead of time: %s", opened.id, error)
        return
