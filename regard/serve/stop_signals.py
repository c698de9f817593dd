"""SIGINT and SIGTERM, received at any moment, whatever the main thread is doing.

    with StopSignals() as stop:
        import_something_slow()
        stop.check()                         # between two phases of starting: raises Stopping if a signal has come
        stop.then(server.stop)               # from now on a signal calls this; one that came before calls it now
        server.run()
        stop.end()                           # one line, and the process is over

An exception raised by a handler may fall into a weakref callback of an import, where Python drops it. So no handler
raises: Python writes each signal's number to a socket, and a thread reads it there. It also keeps the promise of
`LATEST` seconds when the main thread is stuck, and ends the process at once when a second signal comes.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LATEST = 4.0                   # seconds from the first signal to the end of the process; we promise 5
LINE = "stopped\n"


class Stopping(Exception):
    """A signal came while the server was starting."""


class StopSignals:
    """Hears both signals from `with` on. Outside the main thread, where Python sets no handlers, it hears nothing."""

    def __init__(self) -> None:
        self.asked = False
        self._stop: Callable[[], None] | None = None
        self._saying, self._said = threading.Lock(), False
        self._before: dict[int, Any] = {}
        self._ear, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)                         # set_wakeup_fd wants it so
        self._listener = threading.Thread(target=self._listen, name="regard-signals", daemon=True)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._listener.start()
            self._wakeup = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
            self._before = {number: signal.signal(number, _note) for number in SIGNALS}
        return self

    def __exit__(self, *error: Any) -> None:
        if self._before:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._wakeup)
        self._mouth.close()                                    # the listener reads the end, and goes
        if self._before:
            self._listener.join()
        self._ear.close()

    # -------------------------------------------------------------------------------------- for the server

    def check(self) -> None:
        if self.asked:
            raise Stopping

    def then(self, stop: Callable[[], None]) -> None:
        """Call this when a signal comes, and now if one has come. It may be called twice, from any thread."""
        self._stop = stop
        if self.asked:
            stop()

    def end(self) -> None:
        """Print the line and exit. Threads may still import or compute: nobody waits for them, nor for their clean-up.

        Python's own way out would join worker threads, and would take the handlers away while it still runs.
        """
        with self._saying:
            if not self._said:
                self._said = True
                _write(LINE)
        os._exit(0)

    # ---------------------------------------------------------------------------------------- the listener

    def _listen(self) -> None:
        if not self._heard():
            return
        self.asked = True
        if self._stop is not None:
            self._stop()
        self._ear.settimeout(LATEST)
        with suppress(TimeoutError):
            if not self._heard():
                return
        self.end()

    def _heard(self) -> bool:
        """Wait for one of the signals; return False when nobody listens any more."""
        while number := self._ear.recv(1):
            if number[0] in SIGNALS:
                return True
        return False


def _note(number: int, frame: FrameType | None) -> None:
    """Do nothing: a handler must be set, so that Python writes the signal's number to the socket."""


def _write(line: str) -> None:
    """Write straight to the file: the main thread may hold the lock of sys.stdout."""
    with suppress(OSError, ValueError, AttributeError):        # the reader has gone
        os.write(sys.stdout.fileno(), line.encode())
