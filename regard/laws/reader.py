"""A reader: a layer or a model seen alike, as something that reads rows of inputs and carries a state.

A layer reads vectors (B, T, D) and gives vectors; a model reads pairs of token and target (B, T, 2) and
gives the target's log-probability. So the laws about reading are written once, in `reading_laws.py`.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Memory, Source, State
from regard.laws.law import same
from regard.laws.prepared import in_type

LOUD = 1e4           # what pads and strangers hold: large enough that no leak goes unheard
TIME = 6

Reading = Callable[[Tensor, Any], tuple[Tensor, Any]]


class Examined(ABC):
    """A layer, a model or an encoder as the laws see it: where it computes, and what is drawn for it."""

    dtype: torch.dtype
    device: torch.device

    def __init__(self, thing: Any, *, batch: int, time: int, seed: int):
        self.thing, self.batch, self.time, self.seed = thing, batch, time, seed
        self.dtype, self.device = home_of(thing)
        self.random = torch.Generator().manual_seed(seed)

    @abstractmethod
    def draw(self, batch: int, time: int) -> Tensor:
        """Fresh inputs (B, T, ...)."""

    @abstractmethod
    def ways_to_read(self) -> Iterator[tuple[str, bool, Callable[[Tensor], Tensor]]]:
        """The code paths: a name, whether in train mode, and how to read."""

    @abstractmethod
    def learned(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The outputs that gradients are asked of, those at pads left out."""

    @abstractmethod
    def in_float64(self) -> Self:
        """A copy that computes in float64."""

    def garbage(self, batch: int, time: int) -> Tensor:
        """Values for pads."""
        return self.draw(batch, time)

    def padded(self, inputs: Tensor, counts: Sequence[int]) -> Tensor:
        """These inputs with garbage after each row's length."""
        noisy = self.garbage(*inputs.shape[:2])
        for row, n in enumerate(counts):
            noisy[row, :n] = inputs[row, :n]
        return noisy

    def lengths(self, counts: Sequence[int]) -> Tensor:
        return torch.tensor(list(counts), device=self.device)

    def ragged(self, counts: Sequence[int]) -> Tensor | None:
        """Lengths for a batch; none, where an input always fills its row."""
        return self.lengths(counts)

    def inside(self, lengths: Tensor, time: int | None = None) -> Tensor:
        """(B, T), True where rows of these lengths are real."""
        return torch.arange(time or self.time, device=self.device) < lengths[:, None]

    def whole_numbers(self, low: int, high: int, count: int) -> list[int]:
        """`count` whole numbers between low and high, both possible."""
        return torch.randint(low, high + 1, (count,), generator=self.random).tolist()

    def same(self, law: str, got: Tensor, expected: Tensor, where: str) -> None:
        """Equal but for the rounding of the type in which it computes, or LawBroken."""
        same(law, got, expected, where, dtype=self.dtype)

    @contextmanager
    def mode(self, *, training: bool) -> Iterator[None]:
        """Train mode with gradients, or eval mode without; what was before is put back."""
        module = self.thing if isinstance(self.thing, nn.Module) else nn.Module()
        before = {each: each.training for each in module.modules()}
        module.train(training)
        try:
            with torch.set_grad_enabled(training):
                yield
        finally:
            for each, was in before.items():
                each.training = was


class Reader(Examined):
    """A layer or a model that reads rows and carries a state; `source`, if given, is the Memory or Source that enters
    at every start, and `sources` the number of those its rows belong to."""

    leads: str                   # the field of a source that has a row for each

    def __init__(self, thing: Any, source: Any = None, *, time: int = TIME, seed: int = 0):
        self.source, self.sources = source, 0 if source is None else len(getattr(source, self.leads))
        # Two rows a source, as a beam of two would have.
        super().__init__(thing, batch=2 * self.sources or 3, time=time, seed=seed)

    @abstractmethod
    def start(self, batch: int, capacity: int | None = None) -> State | None: ...

    @abstractmethod
    def read(self, inputs: Tensor, state: State | None, lengths: Tensor | None = None) -> tuple[Tensor, Any]: ...

    @abstractmethod
    def source_of_row(self, row: int) -> Any:
        """The source of this row alone, cut to its real length."""

    @abstractmethod
    def source_in_noise(self) -> Any:
        """The source with one more pad, and garbage at every pad; None where it has no pads."""

    def enough_rows(self, count: int) -> int:
        """At least so many rows: as many for each source."""
        groups = max(1, self.sources)
        return -(-count // groups) * groups

    def with_source(self, source: Any) -> Self:
        """A copy of the reader with another source."""
        return type(self)(self.thing, source, time=self.time, seed=self.seed)

    def in_float64(self) -> Self:
        source = None if self.source is None else self.source.map(in_type(torch.float64))
        return type(self)(copy.deepcopy(self.thing).double(), source, time=self.time, seed=self.seed)

    def ways_to_read(self) -> Iterator[tuple[str, bool, Callable[[Tensor], Tensor]]]:
        half = self.time // 2
        yield "read whole in training", True, self.whole
        yield "read whole", False, self.whole
        yield "read at once with a state", False, lambda inputs: self.in_chunks(inputs, [self.time])
        if half:
            yield "read in two chunks", False, lambda inputs: self.in_chunks(inputs, [half, self.time - half])
        yield "read step by step", False, lambda inputs: self.in_chunks(inputs, [1] * self.time)

    def ways_to_go_on(self) -> Iterator[Reading]:
        """The functions that take inputs and a state, and return the next state."""
        yield self.read

    def whole(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """One whole read, as in training."""
        state = self.start(inputs.shape[0]) if self.sources else None
        return self.read(inputs, state, lengths)[0]

    def learned(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        outputs = self.whole(inputs, lengths)
        return outputs if lengths is None else outputs[self.inside(lengths, inputs.shape[1])]

    def in_chunks(self, inputs: Tensor, sizes: Sequence[int]) -> Tensor:
        """Read in pieces of these sizes, the state carried."""
        state = self.start(inputs.shape[0], capacity=inputs.shape[1])
        outputs = []
        for piece in inputs.split(list(sizes), 1):
            output, state = self.read(piece.contiguous(), state)
            outputs.append(output)
        return torch.cat(outputs, 1)

    def in_ragged_chunks(self, inputs: Tensor, plan: Tensor) -> Tensor:
        """Read in padded pieces: in piece j, row b reads its next plan[j, b] inputs, perhaps none."""
        batch = inputs.shape[0]
        state = self.start(batch, capacity=inputs.shape[1])
        outputs: list[list[Tensor]] = [[] for _ in range(batch)]
        done = [0] * batch
        for counts in plan.tolist():
            piece = self.garbage(batch, max(1, *counts))
            for row, n in enumerate(counts):
                piece[row, :n] = inputs[row, done[row]:done[row] + n]
            output, state = self.read(piece, state, self.lengths(counts))
            for row, n in enumerate(counts):
                outputs[row].append(output[row, :n])
                done[row] += n
        return torch.stack([torch.cat(row) for row in outputs])

    def alone(self, row: int) -> Self:
        """The reader of this row by itself, with its own source."""
        return self.with_source(self.source_of_row(row)) if self.sources else self


class LayerReader(Reader):
    """Reads vectors."""

    leads = "vectors"

    def draw(self, batch: int, time: int) -> Tensor:
        drawn = torch.randn(batch, time, self.thing.d_in, generator=self.random, dtype=torch.float64)
        return drawn.to(self.device, self.dtype)

    def garbage(self, batch: int, time: int) -> Tensor:
        return LOUD * self.draw(batch, time)

    def start(self, batch: int, capacity: int | None = None) -> State | None:
        if self.source is None:
            return self.thing.start(batch, capacity=capacity)
        return self.thing.start(batch, capacity=capacity, memory=self.source)

    def read(self, inputs: Tensor, state: State | None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        return self.thing(inputs, state, lengths)

    def source_of_row(self, row: int) -> Memory:
        at = row // (self.batch // self.sources)
        one: Memory = self.source.map(lambda t: t[at:at + 1])
        return Memory(one.vectors[:, :int(one.lengths)], one.lengths, one.summary)

    def source_in_noise(self) -> Memory:
        vectors, lengths = self.source.vectors, self.source.lengths
        longer = torch.cat((vectors, vectors[:, :1]), 1)
        noise = LOUD * torch.randn(longer.shape, generator=self.random).to(longer)
        return Memory(_keep_real(longer, noise, lengths), lengths, self.source.summary)


class ModelReader(Reader):
    """Reads tokens and scores their targets."""

    leads = "items"

    def __init__(self, model: LanguageModel, source: Source | None = None, *, time: int = TIME, seed: int = 0):
        super().__init__(model, source, time=min(time, model.context or time), seed=seed)
        self.device = model.device

    def draw(self, batch: int, time: int) -> Tensor:
        return torch.randint(self.thing.vocab, (batch, time, 2), generator=self.random).to(self.device)

    def start(self, batch: int, capacity: int | None = None) -> State | None:
        return self.thing.start(batch, capacity, self.source)

    def read(self, inputs: Tensor, state: State | None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        tokens, targets = (column.contiguous() for column in inputs.unbind(-1))
        return self.thing.score(tokens, targets, state, lengths)

    def step(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B, V): what follows the last of these tokens, and the next state."""
        return self.thing.step(inputs[..., 0].contiguous(), state)

    def each_step(self, inputs: Tensor) -> Tensor:
        """(B, T, V): what `step` says after each token, read one by one."""
        state = self.start(inputs.shape[0], capacity=inputs.shape[1])
        answers = []
        for token in inputs.split(1, 1):
            following, state = self.step(token, state)
            answers.append(following)
        return torch.stack(answers, 1)

    def ways_to_read(self) -> Iterator[tuple[str, bool, Callable[[Tensor], Tensor]]]:
        yield from super().ways_to_read()
        yield "asked after each token", False, self.each_step

    def ways_to_go_on(self) -> Iterator[Reading]:
        yield from (self.read, self.step)

    def source_of_row(self, row: int) -> Source:
        at = row // (self.batch // self.sources)
        one: Source = self.source.map(lambda t: t[at:at + 1])
        return one if one.lengths is None else Source(one.items[:, :int(one.lengths)], one.lengths)

    def source_in_noise(self) -> Source | None:
        items, lengths = self.source.items, self.source.lengths
        if items.ndim != 2:                          # an image: no pads
            return None
        if lengths is None:
            lengths = torch.full(items.shape[:1], items.shape[1], device=items.device)
        longer = torch.cat((items, items[:, :1]), 1)
        noise = longer.flatten()[torch.randperm(longer.numel(), generator=self.random)].view_as(longer)
        return Source(_keep_real(longer, noise, lengths), lengths)


def home_of(thing: Any) -> tuple[torch.dtype, torch.device]:
    """The type of a module's first floating tensor and the device of its first tensor; else float64, on the CPU."""
    dtype, device = torch.float64, torch.device("cpu")
    if isinstance(thing, nn.Module):
        for tensor in itertools.chain(thing.buffers(), thing.parameters()):
            device = tensor.device
            if tensor.is_floating_point():
                return tensor.dtype, device
    return dtype, device


def _keep_real(real: Tensor, noise: Tensor, lengths: Tensor) -> Tensor:
    """`real` up to each row's length, `noise` after it."""
    keep = torch.arange(real.shape[1], device=real.device) < lengths[:, None]
    return torch.where(keep.reshape(*keep.shape, *[1] * (real.ndim - 2)), real, noise)
