"""Ranks: the processes that train one model together.

Each works on its share of every batch. A process by itself is rank 0 of one: it keeps what it is given, and waits for
nobody. `training/parallel.py` has the form for several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


class Ranks:
    """One process by itself."""

    number, count = 0, 1
    restarts = 0                               # by torchrun, on whichever machine it counts the most

    @property
    def machines(self) -> int:
        """Return the number of machines that the ranks are on."""
        return 1

    @property
    def first(self) -> bool:
        """Return whether this rank writes and speaks for all."""
        return self.number == 0

    def speaker(self, say: Callable[[str], None]) -> Callable[[str], None]:
        """Return what says a line that is of this rank alone: of several, with its name."""
        return say

    # ------------------------------------------------------------------------------------ work dealt out

    def deal(self, items: Iterable[Item]) -> Iterator[Item]:
        """Return this rank's share of the items: each is some rank's, and no two ranks have the same."""
        return islice(items, self.number, None, self.count)

    def collect(self, mine: Sequence[Value]) -> list[Value]:
        """Return the results of all ranks in the order of the items that were dealt out; they must be plain values."""
        return list(mine)

    def total(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all ranks."""
        return list(values)

    def decide(self, value: Value) -> Value:
        """Return rank 0's value, which must be plain: what a clock or a disk decides is decided once."""
        return value

    # -------------------------------------------------------------------------------------- a training step

    def expect(self, compiles: bool) -> None:
        """Expect that a shape that is new takes long, where code is compiled or recorded for it."""

    def begin_step(self, seed: int, step: int) -> None:
        """Do nothing: a process by itself draws its noise from generators that go on from step to step."""

    def part(self, batch: Any) -> tuple[Any, float]:
        """Return this rank's rows of a batch, and the share of each real target in the loss of the whole batch."""
        return batch, 1 / max(1, batch.real)

    def exchange(self, loss: Any, weights: Sequence[Any], tokens: int) -> Any:
        """Put the gradients of the whole batch in place, where they were those of this rank's rows; return the loss."""
        return loss

    def end_training(self) -> None:
        """Note that training has ended: what follows is rank 0's alone."""

    def looks_at_clock(self, step: int, steps: int) -> bool:
        """Return whether to look at the clock after this step of so many: each look of several ranks is a message."""
        return True

    def agree_to_stop(self, asked: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function that says whether to stop: at the same step on all ranks."""
        return asked

    def with_figures(self, figures: Any) -> Any:
        """Return the figures of a step with what each rank said of it."""
        return figures

    def waiting(self) -> AbstractContextManager[None]:
        """Return a block in which this rank waits for what the others compute; one does not wait."""
        return nullcontext()

    def busy(self) -> AbstractContextManager[None]:
        """Return a block in which the others may have to wait for this rank; one keeps nobody waiting."""
        return nullcontext()

    def read_figures(self, said: Sequence[float]) -> str:
        """Take note of what each rank said of a step; return which one had a number that is not finite."""
        return ""

    def share_out(self, work: Callable[[Any], Any], stacks: Iterable[Any]) -> Iterator[Any]:
        """Return the results of the work on each stack of matrices; each matrix is some rank's work."""
        return map(work, stacks)

    # ------------------------------------------------------------------------------------- the state of training

    def gather_rows(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors of all rows, where each rank has those of its own."""
        return dict(tensors)

    def own_rows(self, tensor: Any) -> Any:
        """Return this rank's rows of a tensor that leads with the rows of a batch."""
        return tensor

    def require_equal(self, weights: Sequence[Any]) -> None:
        """Stop where two ranks have other weights; one has nobody to differ from."""

    def wait(self) -> None:
        """Wait until all ranks have come here."""

    def trial(self) -> Ranks:
        """Return ranks with whose share of a batch steps can be timed, while the others wait."""
        return self

    def describe(self, say: Callable[[str], None], model: Any, settings: Any) -> None:
        """Say how many ranks there are, what each holds and what travels; of one, nothing."""

    def speeds(self) -> dict[str, Any]:
        """Return what to log of the ranks' speeds."""
        return {}

    def name_straggler(self, say: Callable[[str], None]) -> None:
        """Say which rank keeps the others waiting, if one does."""


ALONE = Ranks()
