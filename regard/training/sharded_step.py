"""A training step whose weights are dealt out over ranks (sharding.py).

Messages are sent inside forward and backward passes, so that all ranks make the same number of passes: one that has
fewer rows takes its first once more, with a share of nothing. A rank that runs out of memory stops all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import State
from regard.data.batching.text_batches import Batch
from regard.errors import TrainingStopped
from regard.layers.stack import stacked_layers
from regard.training import step
from regard.training.averaging import Average
from regard.training.memory import out_of_memory
from regard.training.optim import Optimizers
from regard.training.settings import TrainingSettings
from regard.training.sharding import Shards
from regard.training.step import ForwardBackward, TrainingStep, concatenate, uses_bfloat16
from regard.training.traffic import say_bytes, sharded_bytes


class ShardedStep(TrainingStep):
    """A training step on this rank's share of the weights; `model` is the whole one, there only while gathered."""

    way = "fsdp"
    ranks: Any                                                 # several

    def __init__(self, model: Any, *given: Any, shards: Shards, **options: Any):
        self.shards, self.is_gathered = shards, False
        self.asked_rows, self.most_rows = 0, 0                 # rows at once, and of the rank that has the most
        super().__init__(model, *given, **options)

    def make_updates(self, settings: TrainingSettings) -> None:
        self.records = False
        self.optimizers = Optimizers(self.model, settings, shards=self.shards)
        self.average = Average(self.model, settings.ema, self.shards.own) if settings.ema else None

    def record_updates(self) -> None:
        """Record nothing; with the message of a step travel the gradients of what every rank holds whole."""
        own, replicated = self.shards.trained, self.shards.replicated
        self.dealt = [weight for name, weight in own.items() if name not in replicated]
        self.trained = [weight for name, weight in own.items() if name in replicated]
        self.static_gradients = None
        self.clip_gradients = self.clip
        self.update_weights = lambda: step.update_weights(self.optimizers, self.average)

    def start_state(self, batch: Batch) -> State | None:
        return self.shards.sharded.start(len(batch.tokens), batch.tokens.shape[1])    # type: ignore[no-any-return]

    def backward(self, step: int, micro_batch: int) -> tuple[Tensor, int, int]:
        self.asked_rows = micro_batch
        return super().backward(step, micro_batch)

    def take_part(self, whole: Batch) -> tuple[Batch, float]:
        self.most_rows = -(-len(whole.tokens) // self.ranks.count)
        return super().take_part(whole)

    def accumulate(self, batch: Batch, state: State | None, rows: int, share: float) -> tuple[Tensor, State | None]:
        """As of one process, in as many passes as the rank with the most rows makes."""
        rows = self.asked_rows or self.most_rows
        try:
            found = self.pass_through(batch, state, rows, share)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if out_of_memory(error):
                raise stopped_by_memory(error, rows) from None
            raise
        self.shards.collect_gradients()
        return found

    def pass_through(self, batch: Batch, state: State | None, rows: int, share: float) -> tuple[Tensor, State | None]:
        total, states = torch.zeros((), device=self.model.device), list[State]()
        for first in range(0, self.most_rows, rows):
            real = first < len(batch.tokens)
            part = slice(first, first + rows) if real else slice(0, 1)
            micro_batch = self.widen(batch.rows(part.start, part.stop)).to(self.model.device)
            before = None if state is None else state.map(lambda t: t[part])           # noqa: B023
            loss, after = self.forward_backward(micro_batch, before, share if real else 0.0)
            total += loss if real else 0.0
            if real and after is not None:
                states.append(after)
        return total, None if state is None else concatenate(states).detach()

    def describe_ranks(self, say: Callable[[str], None], settings: TrainingSettings) -> None:
        count, passes = self.ranks.count, 1
        if settings.micro_batch and settings.reading != "pairs":
            passes = -(-settings.batch // count // settings.micro_batch)
        travels = sharded_bytes(self.shards, count, passes)
        say(f"ranks      {count}, with FSDP: each holds 1 / {count} of all matrices, of their gradients and of the "
            "optimizer's state, whole layers while it works on them, and reads its share of the rows of each batch")
        say(f"           {say_bytes(sum(travels.values()))} leave each rank in a step: "
            + ", ".join(f"{say_bytes(size)} of {name}" for name, size in travels.items()))
        say("           checkpoints have a file for each rank; model.safetensors is whole. At validations each rank "
            "gathers all weights")

    # --------------------------------------------------------------------------------------------- clipping

    def clip(self) -> Tensor:
        """Scale the gradients of all ranks down to one norm of the limit at most; return the norm they had."""
        norm = self.norm()
        gradients = [weight for weight in (*self.dealt, *self.trained) if weight.grad is not None]
        if self.ahead or not norm + 1e-6 <= self.limit:
            nn.utils.clip_grads_with_norm_(gradients, self.limit, norm)
        return norm

    def norm(self) -> Tensor:
        """Return the norm of the gradients of the whole model: of rows that are dealt out, squares are summed."""
        norm = nn.utils.get_total_norm if self.ahead else step.gradient_norm           # a GPU: all in a few kernels
        square = norm(gradients_of(self.dealt)).square().to(self.model.device).reshape(1)
        self.ranks.sum(square, quick=True)
        return (square[0] + norm(gradients_of(self.trained)).square().to(square.device)).sqrt()

    # ---------------------------------------------------------------------------------------- whole weights

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """In this block `model` is whole on every rank, with the averaged weights where they are averaged."""
        weights = self.shards.own if self.average is None else self.average.weights
        with self.shards.gathered(weights):
            self.is_gathered = True
            try:
                yield
            finally:
                self.is_gathered = False

    def averaged_weights(self) -> AbstractContextManager[None]:
        assert self.is_gathered, "all ranks gather the weights together"
        return nullcontext()


def gradients_of(weights: list[nn.Parameter]) -> list[Tensor]:
    return [weight.grad for weight in weights if weight.grad is not None]


def stopped_by_memory(error: BaseException, rows: int) -> TrainingStopped:
    cure = f"training.micro_batch={max(1, rows // 2)}, or begin with training.recompute=layers" if rows > 1 else (
        "more ranks, or a smaller --width, --layers or --context")
    return TrainingStopped(f"out of memory with {rows} row{'s' * (rows > 1)} at once: with --parallel fsdp all ranks "
                           f"go on together or not at all; go on with --resume and {cure} "
                           f"({str(error).splitlines()[0]})")


def make_sharded_passes(shards: Shards, settings: TrainingSettings) -> ForwardBackward:
    """Return forward and backward passes over the sharded model."""
    return make_layered_passes(shards.sharded, settings, shards.units)


def make_layered_passes(model: Any, settings: TrainingSettings, units: Sequence[nn.Module] = ()) -> ForwardBackward:
    """Return forward and backward passes that can be interrupted between layers; on a GPU layers are compiled, those of
    a unit together, and once for all that are alike."""
    gpu = model.device.type == "cuda"
    compiled = settings.compile in ("yes", "graphs") or (settings.compile == "auto" and gpu)
    if compiled:
        together = [] if settings.recompute == "layers" else units
        inside = {layer for unit in together for layer in unit.modules()}
        for layer in (*together, *(layer for layer in stacked_layers(model) if layer not in inside)):
            layer.forward = torch.compile(layer.forward, dynamic=False)                # type: ignore[method-assign]
    passes = ForwardBackward(model, bfloat16=uses_bfloat16(model, settings), recompute=settings.recompute)
    passes.compiled = compiled
    return passes
