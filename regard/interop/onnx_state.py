"""A state as named tensors, and back: what goes into a graph of ONNX and what comes out of it.

B batch · L source length
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.contract import Source, State
from regard.errors import RunError

AFTER = "after."                   # before the name of a tensor of the state that a step gives
Axes = dict[int, str]              # the axes of a tensor that are free, by name


@dataclass(frozen=True)
class StateForm:
    """The tensors of a model's state: their names in order, and which of their axes are free."""

    names: tuple[str, ...]
    axes: tuple[Axes, ...]
    like: State                            # one of these states: what in it is no tensor stays as it is

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(AFTER + name for name in self.names)

    def join(self, tensors: Sequence[Tensor]) -> Any:
        """Return the state that consists of these tensors."""
        left: Iterator[Tensor] = iter(tensors)
        return self.like.map(lambda _: next(left), lambda _: next(left))

    def part(self, state: State) -> tuple[Tensor, ...]:
        """Return the tensors of a state, in order; copies, so that none is given twice."""
        found = state.tensors()
        if tuple(found) != self.names:
            raise RunError(f"a step changes which tensors the state has, from {', '.join(self.names)} to "
                           f"{', '.join(found)}: ONNX cannot hold that")
        return tuple(tensor.clone() for tensor in found.values())


def find_form(model: Any, capacity: int, source: Source | None, longer: Source | None) -> StateForm:
    """Return the form of the model's states. An axis whose length differs for a longer source is free, as is the
    batch."""
    with torch.no_grad():
        batch = 2 if source is None else len(source.items)
        state = model.start(batch, capacity, source)
        other = state if longer is None else model.start(batch, capacity, longer)
    if state is None:
        raise RunError("the model carries no state: there is nothing to step with")
    tensors, others = state.tensors(), other.tensors()
    return StateForm(tuple(tensors), tuple(
        find_axes(tensor, others[name], None if source is None else source.items.shape[1])
        for name, tensor in tensors.items()), state)


def find_axes(tensor: Tensor, other: Tensor, length: int | None) -> Axes:
    """Return the free axes of a tensor (B, ...): the batch; those of the source's length; others that grow with it."""
    grown = {axis: "source" if size == length else "slots"
             for axis, size in enumerate(tensor.shape) if size != other.shape[axis]}
    return {0: "batch", **grown}
