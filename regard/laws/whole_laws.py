"""The laws of what reads rows whole, in any direction: an encoder, a masked model, or a label model.

padding · order · watching · train is eval · gradients · parameters.   B rows · T time
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import product

from torch import Tensor

from regard.laws.gradient_laws import (
    NEVER_READ,
    check_gradients,
    differentiable,
    parameters,
    ready_to_learn,
    untouched_by_pads,
)
from regard.laws.law import Law, all_finite
from regard.laws.reader import Examined
from regard.laws.reading_laws import MODE_LAWS


class WholeReader(Examined):
    """Something that reads rows whole, and rows drawn for it."""

    @abstractmethod
    def outputs(self, items: Tensor, lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Everything that comes out, row by row, under names for messages."""

    def ways_to_read(self) -> Iterator[tuple[str, bool, Callable[[Tensor], Tensor]]]:
        """Each of the outputs, in eval mode and in train mode."""
        lengths = self.ragged(self.some_counts())
        with self.mode(training=False):
            names = list(self.outputs(self.draw(self.batch, self.time), lengths))
        for name, training in product(names, (False, True)):
            yield name, training, lambda items, name=name: self.outputs(items, lengths)[name]      # type: ignore[misc]

    def some_counts(self) -> list[int]:
        """Lengths of rows, no two neighbours alike, one of them whole."""
        return [self.time - row % self.time for row in range(self.batch)]

    def draws_of_lengths(self) -> Iterator[list[int]]:
        """Lengths of rows, among them all."""
        for _ in range(3):
            yield self.whole_numbers(1, self.time, self.batch)
        yield [self.time] * self.batch


def padding(reader: WholeReader) -> None:
    """A row gives the same alone and in any batch, whatever pads and neighbours hold."""
    items = reader.draw(reader.batch, reader.time)
    with reader.mode(training=False):
        for counts in reader.draws_of_lengths():
            lengths, where = reader.ragged(counts), f"in a batch of lengths {counts}"
            together, again = (reader.outputs(reader.padded(items, counts), lengths) for _ in range(2))
            for name, values in together.items():
                all_finite("padding", values, f"{name} {where}")
                if values.ndim == 2:                           # a vector for a row: no part of it stands at a pad
                    reader.same("padding", again[name], values, f"{name} {where}, with other pads")
            for row, n in enumerate(counts):
                one = items[row:row + 1] if lengths is None else items[row:row + 1, :n]
                for name, values in (reader.outputs(one) if n else {}).items():
                    reader.same("padding", together[name][row:row + 1, :values.shape[1]], values,
                                f"{name} of row {row} {where}")


def order(reader: WholeReader) -> None:
    """Rows in another order, or several times over, give the same in that order."""
    items, lengths = reader.draw(reader.batch, reader.time), reader.ragged(reader.some_counts())
    rows = reader.lengths([*reversed(range(reader.batch)), 0, 0])
    with reader.mode(training=False):
        expected = reader.outputs(items, lengths)
        found = reader.outputs(items[rows], None if lengths is None else lengths[rows])
    for name, values in expected.items():
        reader.same("order", found[name], values[rows], f"{name} of rows in another order")


def gradients(reader: WholeReader) -> None:
    """The gradients are those of the outputs, and no pad has a part in them."""
    reader, items = ready_to_learn(reader)
    lengths = reader.ragged(reader.some_counts())
    with reader.mode(training=True):
        check_gradients(lambda: reader.learned(items, lengths), differentiable(reader, items))
        untouched_by_pads(reader, items, reader.some_counts())


WHOLE_LAWS = (
    Law("padding", padding, "attention reads the pads (mask the keys), a reverse reader starts at them, a mean counts "
        "them, or `lengths` does not reach the encoder"),
    Law("order", order, "something is kept from row to row, or depends on the place in the batch"),
    *MODE_LAWS,
    Law("gradients", gradients, "a detach, an in-place change, a fully masked row that becomes NaN, or pads in a mean"),
    Law("parameters", parameters, NEVER_READ),
)
