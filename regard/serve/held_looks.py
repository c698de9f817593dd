"""Looks that are held for the page: their numbers are asked for by id, until newer looks take their room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regard.serve.refusals import Refusal
from regard.serve.registry import Opened

if TYPE_CHECKING:
    from regard.look import Look, Track

ROOM = 512 * 2**20                           # bytes of looks that are held


@dataclass(eq=False)
class HeldLook:
    """A look, its model, and the answer that described it."""

    look: Look
    opened: Opened
    answer: dict[str, Any]

    def nbytes(self) -> int:
        return self.look.nbytes() + 4096

    def ready(self, track: Track) -> AbstractContextManager[None]:
        """Hold the model's lock while a lazy track is still to be worked out, which runs the model."""
        return self.opened.lock if track.lazy else nullcontext()

    def track(self, name: str) -> Track:
        """Return the track of this name; 404 where there is none."""
        if name not in [track.name for track in self.look.tracks]:
            raise Refusal(404, f"this look has no track {name}", param="track", code="track_unknown")
        return self.look.track(name)


@dataclass
class HeldLooks:
    """The latest looks, as many as there is room for; the newest is always held."""

    room: int = ROOM
    held: OrderedDict[str, HeldLook] = field(default_factory=OrderedDict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def find(self, id: str) -> HeldLook | None:
        with self.guard:
            if id in self.held:
                self.held.move_to_end(id)
            return self.held.get(id)

    def get(self, id: str) -> HeldLook:
        held = self.find(id)
        if held is None:
            raise Refusal(404, "this look is no longer held: ask for it again", param="id", code="look_gone")
        return held

    def put(self, held: HeldLook) -> None:
        with self.guard:
            self.held[held.look.id] = held
            self.held.move_to_end(held.look.id)
        self.trim()

    def trim(self) -> None:
        """Drop the oldest while there is too much; a look grows when one of its lazy tracks is worked out."""
        with self.guard:
            while len(self.held) > 1 and self.nbytes() > self.room:
                self.held.popitem(last=False)

    def nbytes(self) -> int:
        return sum(each.nbytes() for each in self.held.values())
