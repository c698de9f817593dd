"""The laws of reading, for layers and models alike; the last two are also those of what reads rows whole.

B batch · T time

cuts · causality · padding · watching · train is eval
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.laws.law import Law, LawSkipped, all_finite, bit_equal
from regard.laws.reader import Examined, Reader
from regard.watching import watch


def cuts(reader: Reader) -> None:
    """Read whole, or cut anywhere with the state carried: the outputs are the same."""
    inputs = reader.draw(reader.batch, reader.time)
    with reader.mode(training=False):
        whole = reader.whole(inputs)
        for name, sizes in chunkings(reader):
            reader.same("cuts", reader.in_chunks(inputs, sizes), whole, name)
        for _ in range(4):
            plan = ragged_plan(reader)
            name = f"rows in pieces of different lengths, row by row {plan.T.tolist()}"
            reader.same("cuts", reader.in_ragged_chunks(inputs, plan), whole, name)


def chunkings(reader: Reader) -> Iterator[tuple[str, list[int]]]:
    """Every cut, some chunks, and step by step."""
    time = reader.time
    yield "read at once, but with a state", [time]
    for cut in range(1, time):
        yield f"cut after {cut} of {time}", [cut, time - cut]
    for _ in range(3):
        ends = sorted({*reader.whole_numbers(1, time, 2), time})
        sizes = [end - before for before, end in zip([0, *ends], ends, strict=False)]
        yield f"in chunks of {sizes}", sizes
    yield "step by step", [1] * time


def ragged_plan(reader: Reader, pieces: int = 4) -> Tensor:
    """(pieces + 1, B): how much of its sequence each row reads in each piece; in one piece nobody reads anything."""
    ends = torch.tensor([
        [0, *sorted(reader.whole_numbers(0, reader.time, pieces - 1)), reader.time] for _ in range(reader.batch)
    ])
    plan = ends.diff(dim=1).T                                                     # (pieces, B)
    return torch.cat((plan[:2], torch.zeros_like(plan[:1]), plan[2:]))


def causality(reader: Reader) -> None:
    """Nothing sees the future: changing one input leaves every earlier output bit-equal."""
    changes = [(t, later) for t in range(1, reader.time) for later in (False, True)]
    if not changes:
        return
    own = [slice(i, None, len(changes)) for i in range(len(changes))]          # the rows that have each change
    for name, training, read in reader.ways_to_read():
        inputs = reader.draw(reader.enough_rows(2 * len(changes)), reader.time)
        one, garbage, changed = reader.draw(*inputs.shape[:2]), reader.garbage(*inputs.shape[:2]), inputs.clone()
        for rows, (t, later) in zip(own, changes, strict=True):
            if later:
                changed[rows, t:] = garbage[rows, t:]
            else:
                changed[rows, t] = one[rows, t]
        with reader.mode(training=training):
            before, after = read(inputs), read(changed)
        for rows, (t, later) in zip(own, changes, strict=True):
            what = f"all inputs from position {t} on became garbage" if later else f"the input at position {t} changed"
            bit_equal("causality", after[rows, :t], before[rows, :t], f"{name}, after {what}")


def padding(reader: Reader) -> None:
    """A row gives the same alone and in any batch, whatever pads, neighbours and the source's pads hold."""
    if reader.time < 2:
        raise LawSkipped("with a context of one token there is nothing to pad")
    inputs = reader.draw(reader.batch, reader.time)
    with reader.mode(training=False):
        for lengths in draws_of_lengths(reader):
            _rows_stand_alone(reader, inputs, lengths)
        _loud_neighbours(reader, inputs)
        if reader.sources:
            _source_pads_are_silent(reader, inputs)


def draws_of_lengths(reader: Reader) -> Iterator[list[int]]:
    """Lengths of rows, among them none and all."""
    for _ in range(3):
        yield reader.whole_numbers(1, reader.time, reader.batch)
    yield [0, reader.time, *reader.whole_numbers(0, reader.time, reader.batch)][:reader.batch]


def _rows_stand_alone(reader: Reader, inputs: Tensor, counts: list[int]) -> None:
    noisy, lengths, where = reader.padded(inputs, counts), reader.lengths(counts), f"in a batch of lengths {counts}"
    whole = reader.whole(noisy, lengths)
    for row, n in enumerate(counts):
        all_finite("padding", whole[row, n:], f"row {row} {where}, what comes out at the pads after {n}")
    tail = reader.draw(reader.batch, 2)
    capacity = reader.time + 2 if _has_room(reader) else reader.time
    cached, state = reader.read(noisy, reader.start(reader.batch, capacity), lengths)
    after = reader.read(tail, state)[0] if _has_room(reader) else None
    for row, n in enumerate(counts):
        lone, own = reader.alone(row), inputs[row:row + 1, :n]
        state = lone.start(1, capacity)
        if n:
            expected, state = lone.read(own, state)
            reader.same("padding", whole[row:row + 1, :n], lone.whole(own), f"row {row} {where}")
            reader.same("padding", cached[row:row + 1, :n], expected, f"row {row} {where}, with a state")
        if after is not None:
            expected = lone.read(tail[row:row + 1], state)[0]
            reader.same("padding", after[row:row + 1], expected, f"row {row} going on after {n} real of {reader.time} "
                        f"{where}")


def _has_room(reader: Reader) -> bool:
    """True if two more tokens fit behind the sequence."""
    limit = getattr(reader.thing, "context", None)
    return limit is None or limit >= reader.time + 2


def _loud_neighbours(reader: Reader, inputs: Tensor) -> None:
    for row in range(reader.batch):
        beside = reader.garbage(reader.batch, reader.time)
        beside[row] = inputs[row]
        expected = reader.alone(row).whole(inputs[row:row + 1])
        reader.same("padding", reader.whole(beside)[row:row + 1], expected, f"row {row} beside loud neighbours")


def _source_pads_are_silent(reader: Reader, inputs: Tensor) -> None:
    noisy = reader.source_in_noise()
    if noisy is None:
        return
    beside = reader.with_source(noisy)
    whole, cached = beside.whole(inputs), beside.in_chunks(inputs, [1] * reader.time)
    for row in range(reader.batch):
        expected = reader.alone(row).whole(inputs[row:row + 1])
        where = f"row {row} with garbage at the pads of its source"
        reader.same("padding", whole[row:row + 1], expected, where)
        reader.same("padding", cached[row:row + 1], expected, f"{where}, step by step")


def watching(reader: Examined) -> None:
    """Watching changes no number."""
    for name, training, read in reader.ways_to_read():
        inputs = reader.draw(reader.batch, reader.time)
        with reader.mode(training=training):
            unseen = read(inputs)
            with watch():
                seen = read(inputs)
            bit_equal("watching", seen, unseen, f"{name}, while watched")
            bit_equal("watching", read(inputs), unseen, f"{name}, after having been watched")


def train_is_eval(reader: Examined) -> None:
    """Without dropout, train mode and eval mode give the same."""
    if not isinstance(reader.thing, nn.Module):
        raise LawSkipped("it has no train mode")
    inputs = reader.draw(reader.batch, reader.time)
    for name, training, read in reader.ways_to_read():
        if training:
            continue
        with reader.mode(training=False):
            expected = read(inputs)
        with reader.mode(training=True):
            reader.same("train is eval", read(inputs), expected, f"{name}, in train mode")
        with reader.mode(training=False):
            reader.same("train is eval", read(inputs), expected, f"{name}, in eval mode after train mode")


MODE_LAWS = (
    Law("watching", watching, "the output is computed another way while watched: compute the weights beside it "
        "instead"),
    Law("train is eval", train_is_eval, "dropout that is still on, or statistics of the batch (BatchNorm)"),
)
