"""The laws of the state, for layers and models alike: it can be reordered, it stands still, and a clone is safe."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from regard.contract import State
from regard.laws.law import LawBroken, LawSkipped, bit_equal
from regard.laws.reader import Reader, Reading


def reorder(reader: Reader) -> None:
    """Reordering the batch reorders the state; rows may repeat, as when beams widen."""
    if reader.time < 3:
        raise LawSkipped("the context is too short to go on from anywhere")
    head, tail = reader.draw(reader.batch, reader.time - 2), reader.draw(reader.batch, 2)
    with reader.mode(training=False):
        state = state_after("reorder", reader, head)
        expected = reader.read(tail, state.clone())[0]
        for order in orders(reader):
            rows = reader.lengths(order)
            got = reader.read(tail[rows], state.clone().select(rows))[0]
            reader.same("reorder", got, expected[rows], f"with the rows in the order {order}")
        _put_rows(reader, state)
        again = reader.read(tail, state)[0]
        reader.same("reorder", again, expected, "with the rows as they were, after others had been selected")


def _put_rows(reader: Reader, state: State) -> None:
    """Rows of another state, put in place of this one's, go on as they would have gone on there."""
    other = state_after("reorder", reader, reader.draw(reader.batch, reader.time - 2))
    tail = reader.draw(reader.batch, 2)
    rows = reader.lengths(list(range(0, reader.batch, 2)))
    mixed = state.clone().put(rows, other.clone().select(rows))
    expected = reader.read(tail, state.clone())[0].index_copy(0, rows, reader.read(tail, other)[0][rows])
    reader.same("reorder", reader.read(tail, mixed)[0], expected,
                f"with the rows {rows.tolist()} of another state put in")


def state_after(law: str, reader: Reader, inputs: Tensor) -> State:
    """The state after reading rows of different lengths, so that no two rows are alike in anything."""
    batch, time = inputs.shape[:2]
    lengths = [1 + row % time for row in range(batch)]
    state = reader.start(batch, capacity=reader.time)
    if state is None:
        raise LawSkipped("it has no state")
    _, state = reader.read(reader.padded(inputs, lengths), state, reader.lengths(lengths))
    if not isinstance(state, State):
        raise LawBroken(law, f"it was given a state and returned {type(state).__name__}")
    return state


def orders(reader: Reader) -> Iterator[list[int]]:
    """Permutations and repetitions; rows stay with their source, which is never reordered."""
    groups = max(1, reader.sources)
    size = reader.batch // groups
    turned = [(i + 1) % size for i in range(size)]
    for order in (turned, [size - 1] * size, [*turned, 0, size - 1]):
        yield [group * size + row for group in range(groups) for row in order]


def static_shapes(reader: Reader) -> None:
    """A state keeps its shapes from step to step, and a clone outlives the original."""
    with reader.mode(training=False):
        for read in reader.ways_to_go_on():
            steps_stand_still(reader, read)
        _clone_protects(reader)


def steps_stand_still(reader: Reader, read: Reading) -> None:
    """No step changes the form of the state."""
    state = reader.start(reader.batch, capacity=reader.time)
    if state is None:
        raise LawSkipped("it has no state")
    form = form_of(state, reader.batch)
    for step in range(reader.time):
        _, state = read(reader.draw(reader.batch, 1), state)
        now = form_of(state, reader.batch)
        for name in sorted({*form, *now}):
            if form.get(name) != now.get(name):
                raise LawBroken("static shapes", f"step {step + 1} changed {name} of the state from "
                                f"{form.get(name, 'nothing')} to {now.get(name, 'nothing')}")


def form_of(state: Any, batch: int) -> dict[str, str]:
    """The form that no step may change: each tensor's shape, type and device, each plain value, each class."""
    if not isinstance(state, State):
        raise LawBroken("static shapes", f"it was given a state and returned {type(state).__name__}")
    form: dict[str, str] = {}
    _describe(state, "state", batch, form)
    return form


def _describe(value: Any, name: str, batch: int | None, form: dict[str, str]) -> None:
    """`batch` is what tensors must lead with; None inside what belongs to the source."""
    if isinstance(value, Tensor):
        if batch is not None and (value.ndim == 0 or value.shape[0] != batch):
            raise LawBroken("static shapes", f"{name} has shape {tuple(value.shape)}: every tensor of a state leads "
                            f"with the batch ({batch}), or is marked of_source()")
        form[name] = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)} on {value.device.type}"
    elif isinstance(value, State):
        form[name] = type(value).__name__
        for each in dataclasses.fields(value):
            inside = None if each.metadata.get("source") else batch
            _describe(getattr(value, each.name), f"{name}.{each.name}", inside, form)
    elif isinstance(value, (tuple, list)):
        form[name] = f"{type(value).__name__} of {len(value)}"
        for index, item in enumerate(value):
            _describe(item, f"{name}.{index}", batch, form)
    else:
        form[name] = repr(value)


def _clone_protects(reader: Reader) -> None:
    """Go on twice from one place: once with the state, once with its clone."""
    if reader.time < 3:
        return
    head, tail = reader.draw(reader.batch, reader.time - 2), reader.draw(reader.batch, 2)
    strangers = reader.draw(reader.batch, 2)
    spent = state_after("static shapes", reader, head)
    clone = spent.clone()
    photograph = {name: tensor.clone() for name, tensor in clone.tensors().items()}
    first, after = reader.read(tail[:, :1].contiguous(), spent)
    reader.read(strangers[:, :1].contiguous(), after)
    for name, tensor in clone.tensors().items():
        bit_equal("static shapes", tensor, photograph[name], f"{name} of a clone, after the original was spent")
    again, _ = reader.read(tail[:, :1].contiguous(), clone)
    bit_equal("static shapes", again, first, "going on from a clone, after the original was spent")
