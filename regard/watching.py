"""Watching: a context in which layers record what they read, and in which one row of attention may be edited.

Layers ask `watching()` before they do work that only a watcher needs. Watching changes no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class Reading:
    """One layer's record of a watched run: `kind` says what sort of amount `values` holds."""

    layer: object
    kind: str                          # "weights" · "kernel" · "back-off" · "influence"
    values: Tensor
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def reads(self) -> str:
        """The sequence that the layer's attention reads: "self", "source" or "encoder"; empty without attention."""
        return getattr(self.layer, "reads", "")


@dataclass
class Edit:
    """A row of attention scores to be used in the place of the model's own: what would be said if it read otherwise?

    Rows count what the layer computes while it is watched, over all its calls. A row given as it was changes nothing.
    """

    layer: object
    head: int                          # from 0
    row: int                           # from 0
    scores: Tensor                     # (S,): what enters the softmax; -inf where nothing is read
    passed: int = 0                    # rows the layer has computed so far


@dataclass
class Recorder:
    """Collects readings in the order in which the layers made them."""

    readings: list[Reading] = field(default_factory=list)
    closely: bool = False              # layers tell in `about` what their amounts are worked out from, too
    edit: Edit | None = None

    def add(self, layer: object, kind: str, values: Tensor, **about: Any) -> None:
        self.readings.append(Reading(layer, kind, values.detach(), about))

    def of(self, kind: str) -> list[Reading]:
        return [reading for reading in self.readings if reading.kind == kind]


_recorder: ContextVar[Recorder | None] = ContextVar("regard_recorder", default=None)
_edit: ContextVar[Edit | None] = ContextVar("regard_edit", default=None)


@contextmanager
def watch(closely: bool = False) -> Iterator[Recorder]:
    """Everything read inside this block is recorded. Watching changes no number.

        with regard.watch() as seen:
            model.score(tokens, targets)
        seen.of("weights")[0].values       # (B, H, T, T) of the first attention layer

    Watched closely, a layer also tells in `about` what it takes to redo the arithmetic by hand: queries, keys and
    values of attention, steps and codes of a state space. Only what is `editing` changes what the model says.
    """
    recorder = Recorder(closely=closely, edit=_edit.get() if closely else None)
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


@contextmanager
def editing(edit: Edit) -> Iterator[None]:
    """Whoever watches closely inside this block sees the model read with these scores in the place of its own."""
    token = _edit.set(edit)
    try:
        yield
    finally:
        _edit.reset(token)


def watching() -> Recorder | None:
    """The recorder, while watched; layers ask this before doing work that only a watcher needs."""
    return None if torch.compiler.is_compiling() else _recorder.get()
