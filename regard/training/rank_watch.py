"""A watch over the ranks of a run: where each of them is, and what to say when one is gone.

Every rank tells the others twice a second, through the store at which they met, how many messages it has come to, and
how many pieces of work its disk has done. A rank whose beat stops is dead or cut off. One that beats, but neither comes
to the message that all others wait for nor gets on with a file, hangs, unless it says that it is busy with what is its
alone. Whoever waits for such a rank ends, and one of them says which rank it was.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from regard import storage
from regard.errors import one_line

BEAT = 0.5                     # seconds between two beats
DEAD = 20.0                    # seconds without a beat after which a rank counts as dead
MISSED = 5.0                   # the same, once a connection broke: somebody is gone for certain
NOTICED = 2.0                  # seconds in a message before one asks who keeps it
GRACE = 20.0                   # seconds to end by itself, once the run is over for all
BUSY = 1200.0                  # seconds that others wait for a rank that is busy: it writes a sample, say


class RankWatch:
    """The beats of all ranks; it runs in a thread of its own."""

    def __init__(self, store: Any, number: int, names: list[str], keeper: str, clean_up: Callable[[], None]):
        self.store, self.asked = store.clone(), store.clone()      # one for the thread, one for everybody else
        self.number, self.names, self.clean_up = number, names, clean_up
        self.keeper = keeper                                       # who keeps the store; empty: rank 0
        self.entered, self.patience, self.since = 0, 0.0, 0.0      # messages come to; of the present one
        self.is_busy = False
        self.seen: dict[int, tuple[bytes, float]] = {}             # the last beat of each rank, and when it came
        self.progress: dict[int, tuple[int, float]] = {}           # what the disk of each has done, and since when
        self.over_since = 0.0
        self.speaking, self.has_told = threading.Lock(), False     # two threads may find why the run ends
        self.accused: set[int] = set()                             # ranks that hang, as this one finds
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.beat(self.store)
        self.thread.start()

    def stop(self) -> None:
        """End the watch: this rank is done."""
        self.done.set()
        self.thread.join()

    def part(self) -> None:
        """Leave the store; who keeps it leaves last."""
        with suppress(RuntimeError):
            self.asked.set(f"left/{self.number}", "1")
            if self.number == 0 and not self.keeper:
                self.asked.wait([f"left/{rank}" for rank in range(len(self.names))], timedelta(seconds=MISSED))

    @contextmanager
    def waiting(self, patience: float) -> Iterator[None]:
        """In this block the rank waits for others, so many seconds at most."""
        self.entered += 1
        self.patience, self.since = patience, time.monotonic()
        try:
            yield
        finally:
            self.since = 0.0

    @contextmanager
    def busy(self) -> Iterator[None]:
        """In this block the rank may let the others wait for long."""
        self.is_busy = True
        with suppress(RuntimeError):
            self.beat(self.asked, -1)
        try:
            yield
        finally:
            self.is_busy = False

    # ------------------------------------------------------------------------------------------ the thread

    def run(self) -> None:
        number = 0
        while not self.done.wait(BEAT):
            number += 1
            try:
                self.beat(self.store, number)
                why = self.why_not_waiting(self.store)
            except RuntimeError:                                   # the store is gone, and with it who kept it
                why = self.store_gone() if self.since else ""
            if why and not self.done.is_set():
                self.abandon(why)

    def beat(self, store: Any, number: int = 0) -> None:
        store.set(f"beat/{self.number}", json.dumps([number, self.entered, self.is_busy, storage.pieces_done]))

    def why_not_waiting(self, store: Any) -> str:
        """Return why to wait no longer; empty while there is hope."""
        since, now = self.since, time.monotonic()
        self.look(store)
        if store.check([f"accused/{self.number}"]):                # it was said by who waits for this one
            self.clean_up()
            os._exit(1)
        if store.check(["over"]):
            self.over_since = self.over_since or now
            if now - self.over_since > GRACE:
                return "the run is over"
        if not since or now - since < NOTICED:
            return ""
        return self.failure(store) or self.gone(DEAD) or self.hanging(since)

    def abandon(self, why: str) -> None:
        """End this process, whose main thread waits for what will not come; the first rank left says why."""
        self.tell(self.store, why)
        self.clean_up()
        os._exit(1)

    # ------------------------------------------------------------------------------------------- who is where

    def look(self, store: Any) -> None:
        """Note the beats of the others, with the time at which each was new."""
        others = [rank for rank in range(len(self.names)) if rank != self.number and store.check([f"beat/{rank}"])]
        for rank, beat in zip(others, store.multi_get([f"beat/{rank}" for rank in others]), strict=True):
            if rank not in self.seen or self.seen[rank][0] != beat:
                self.seen[rank] = beat, time.monotonic()
            done = json.loads(beat)[3]
            if rank not in self.progress or self.progress[rank][0] != done:
                self.progress[rank] = done, time.monotonic()

    def failure(self, store: Any) -> str:
        """Return what the first rank that failed said of it."""
        for rank, name in enumerate(self.names):
            if rank != self.number and store.check([f"failed/{rank}"]):
                return f"{name}: {store.get(f'failed/{rank}').decode()}"
        return ""

    def silent(self, seconds: float) -> list[int]:
        """Return the ranks that have not beaten for so long."""
        return [rank for rank, (_, when) in sorted(self.seen.items()) if time.monotonic() - when > seconds]

    def gone(self, seconds: float) -> str:
        """Return which ranks have not beaten for so long."""
        lost = [self.names[rank] for rank in self.silent(seconds)]
        return f"{' and '.join(lost)} {'are' if len(lost) > 1 else 'is'} gone, killed or cut off" if lost else ""

    def hanging(self, since: float) -> str:
        """Return which ranks have not come to where this one waits, nor got on with a file, for so long."""
        behind, longest = [], 0.0
        for rank, (beat, _) in sorted(self.seen.items()):
            _, entered, is_busy, _ = json.loads(beat)
            limit = max(BUSY, self.patience) if is_busy else self.patience
            if entered < self.entered and time.monotonic() - max(since, self.progress[rank][1]) > limit:
                behind.append(self.names[rank])
                self.accused.add(rank)
                longest = max(longest, limit)
        return f"{' and '.join(behind)} did not come on for {longest:.0f} seconds" if behind else ""

    def store_gone(self) -> str:
        """Return what it means that the store is gone: its keeper is."""
        return f"{self.keeper or self.names[0]} is gone, killed or cut off"

    # ------------------------------------------------------------------------------------------- the last words

    def fail(self, message: str) -> None:
        """Tell the others that this rank has failed."""
        with suppress(RuntimeError):
            self.asked.set(f"failed/{self.number}", message)
            self.asked.set("over", "1")

    def explain(self, reason: str) -> str:
        """Return which rank was lost, after a message failed; where all are there, what torch gave as the reason."""
        until = time.monotonic() + 3 * MISSED
        try:
            while time.monotonic() < until:
                self.look(self.asked)
                if why := self.failure(self.asked) or self.gone(MISSED):
                    return why
                time.sleep(BEAT / 2)
        except RuntimeError:
            return self.store_gone()
        return f"{self.names[self.number]} could not send or get a message ({reason})"

    def tell(self, store: Any, why: str) -> None:
        """Say why the run ends, once for this rank."""
        with self.speaking:
            if not self.has_told:
                self.has_told = True
                self.say_or_hear(store, why)

    def say_or_hear(self, store: Any, why: str) -> None:
        """Say why the run ends, if no lower rank is left to say it; else wait until it has."""
        said = False
        report_to_torchrun(why)
        try:
            store.set("over", "1")
            if self.is_told(store):
                store.set(f"heard/{self.number}", "1")
                return
            print(f"regard: {one_line(why)}", file=sys.stderr, flush=True)
            said = True
            store.set("said", "1")
            self.wait_for_hearers(store)
            for rank in self.accused:
                store.set(f"accused/{rank}", "1")
            time.sleep(4 * BEAT if self.accused else 0)            # for them to see it: the store may end with us
        except RuntimeError:                                       # the store is gone, and nobody can be asked
            if said:
                return
            if self.number == 1 or (self.keeper and self.number == 0):
                print(f"regard: {one_line(why)}", file=sys.stderr, flush=True)

    def is_told(self, store: Any) -> bool:
        """Wait for the lower ranks, as far as they are alive; return whether one has said why the run ends."""
        until, lower = time.monotonic() + 4 * MISSED, set(range(self.number)) - self.accused
        while lower - set(self.silent(MISSED)) and time.monotonic() < until:
            if store.check(["said"]):
                return True
            time.sleep(BEAT / 4)
            self.look(store)
        return bool(store.check(["said"]))

    def wait_for_hearers(self, store: Any) -> None:
        """Wait until the others know that it was said: the store may end with this process."""
        until, others = time.monotonic() + 2 * MISSED, set(range(len(self.names))) - {self.number} - self.accused
        while time.monotonic() < until:
            others -= set(self.silent(MISSED))
            others -= {rank for rank in others if store.check([f"heard/{rank}"])}
            if not others:
                return
            time.sleep(BEAT / 4)
            self.look(store)


def report_to_torchrun(why: str) -> None:
    """Leave the reason where torchrun looks for it: the report that it ends with shows it."""
    if not (path := os.environ.get("TORCHELASTIC_ERROR_FILE")):
        return
    line = f"regard: {one_line(why)}"
    told = {"message": {"message": line, "extraInfo": {"py_callstack": line, "timestamp": str(int(time.time()))}}}
    with suppress(OSError):
        Path(path).write_text(json.dumps(told), "utf-8")
