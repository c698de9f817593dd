"""The laws of what reads rows whole, in any direction: an encoder, a masked model, or a label model.

padding · order · watching · train is eval · gradients · parameters.   B rows · T time
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Self

import torch
from torch import Tensor

from regard.laws.gradient_laws import NEVER_READ, check_gradients, pull_back, reach_all
from regard.laws.law import Law, all_finite, same
from regard.laws.reader import Examined
from regard.laws.reading_laws import MODE_LAWS


class WholeReader(Examined):
    """Something that reads rows whole, and rows drawn for it."""

    @abstractmethod
    def outputs(self, items: Tensor, lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Everything that comes out, row by row, under names for messages."""

    @abstractmethod
    def learned(self, items: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The outputs that gradients are asked of, those at pads left out."""

    @abstractmethod
    def in_float64(self) -> Self:
        """A copy that computes in float64."""

    def ways_to_read(self) -> Iterator[tuple[str, bool, Callable[[Tensor], Tensor]]]:
        """Each of the outputs, in eval mode and in train mode."""
        lengths = self.some_lengths()
        with self.mode(training=False):
            names = list(self.outputs(self.draw(self.batch, self.time), lengths))
        for name, training in product(names, (False, True)):
            yield name, training, lambda items, name=name: self.outputs(items, lengths)[name]      # type: ignore[misc]

    def ragged(self, counts: Sequence[int]) -> Tensor | None:
        """Lengths for a batch; none, where an input always fills its row."""
        return self.lengths(counts)

    def some_lengths(self) -> Tensor | None:
        """Lengths of rows, no two neighbours alike, one of them whole."""
        return self.ragged([self.time - row % self.time for row in range(self.batch)])

    def draws_of_lengths(self) -> Iterator[list[int]]:
        """Lengths of rows, among them all."""
        for _ in range(3):
            yield self.whole_numbers(1, self.time, self.batch)
        yield [self.time] * self.batch

    def with_noise(self, items: Tensor, lengths: Tensor | None) -> Tensor:
        """These rows with others at their pads."""
        if lengths is None:
            return items
        return torch.where(self.inside(lengths), items, self.draw(self.batch, self.time))

    def inside(self, lengths: Tensor) -> Tensor:
        """(B, T), True where rows of these lengths are real."""
        return torch.arange(self.time, device=self.device) < lengths[:, None]

    def weights(self) -> dict[str, Tensor]:
        return {name: weight for name, weight in self.thing.named_parameters() if weight.requires_grad}


def padding(reader: WholeReader) -> None:
    """A row gives the same alone and in any batch, whatever pads and neighbours hold."""
    items = reader.draw(reader.batch, reader.time)
    with reader.mode(training=False):
        for counts in reader.draws_of_lengths():
            lengths, where = reader.ragged(counts), f"in a batch of lengths {counts}"
            together, again = (reader.outputs(reader.with_noise(items, lengths), lengths) for _ in range(2))
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
    items, lengths = reader.draw(reader.batch, reader.time), reader.some_lengths()
    rows = reader.lengths([*reversed(range(reader.batch)), 0, 0])
    with reader.mode(training=False):
        expected = reader.outputs(items, lengths)
        found = reader.outputs(items[rows], None if lengths is None else lengths[rows])
    for name, values in expected.items():
        reader.same("order", found[name], values[rows], f"{name} of rows in another order")


def gradients(reader: WholeReader) -> None:
    """The gradients are those of the outputs, and no pad has a part in them."""
    reader = reader.in_float64()
    items, lengths = reader.draw(reader.batch, reader.time), reader.some_lengths()
    noise = reader.with_noise(items, lengths)
    named = reader.weights()
    with reader.mode(training=True):
        check_gradients(lambda: reader.learned(items, lengths), named)
        quiet, noisy = (pull_back(reader.learned(rows, lengths), named) for rows in (items, noise))
    for name, expected in quiet.items():
        all_finite("gradients", expected, f"the gradient of {name} in a padded batch")
        same("gradients", noisy[name], expected, f"the gradient of {name} with other tokens at the pads")


def parameters(reader: WholeReader) -> None:
    """Every parameter has a part in the outputs."""
    with reader.mode(training=True):
        reach_all(pull_back(reader.learned(reader.draw(reader.batch, reader.time)), reader.weights()))


WHOLE_LAWS = (
    Law("padding", padding, "attention reads the pads (mask the keys), a reverse reader starts at them, a mean counts "
        "them, or `lengths` does not reach the encoder"),
    Law("order", order, "something is kept from row to row, or depends on the place in the batch"),
    *MODE_LAWS,
    Law("gradients", gradients, "a detach, an in-place change, a fully masked row that becomes NaN, or pads in a mean"),
    Law("parameters", parameters, NEVER_READ),
)
