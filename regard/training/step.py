"""One training step: a batch forward and backward in as many micro-batches as memory wants, clipping, the update.

The loss is a sum over real tokens divided by their number, so micro-batches do not change it. Forward and backward run
eager or compiled here, or recorded as CUDA graphs (recorded_step.py).   B batch · T time
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard import kernels
from regard.contract import Learner, State
from regard.data.batching.text_batches import Batch
from regard.errors import SettingError
from regard.kernels.cpu import compiled_code
from regard.kernels.cuda import products
from regard.ranks import ALONE, Ranks
from regard.training.averaging import Average
from regard.training.memory import no_memory, out_of_memory, recompute_activations, recompute_layers
from regard.training.optim import Optimizers
from regard.training.recorded_step import (
    RecordedForwardBackward,
    RecordedWork,
    StaticGradients,
    why_updates_are_eager,
)
from regard.training.settings import TrainingSettings

SOME = 0.25                    # of the feed-forward layers recompute their activation, with training.recompute = some
MOST_RECORDED = 200_000_000    # weights: beyond, the slowest of hosts keeps a GPU busy


@dataclass(frozen=True)
class TrainingPosition:
    """The position of training. All of it is in every checkpoint."""

    step: int = 0                    # updates made
    tokens: int = 0                  # real tokens read
    seconds: float = 0.0             # spent training, over all sessions
    best: float = math.inf           # lowest `cost` of a validation so far
    waited: int = 0                  # validations since then
    micro_batch: int = 0             # rows at once; halved when memory runs out


class TrainingStep:
    """A model with its batches, optimisers and averaged weights."""

    way = "data"                               # how several ranks share the work: parallel_choice.py

    def __init__(
        self, model: Learner,
        batches: Any,                          # Windows, Documents, Streams or Pairs: batch(step) -> Batch
        settings: TrainingSettings,
        forward_backward: ForwardBackward | RecordedForwardBackward,
        say: Callable[[str], None],
        context: int | None = None,            # the longest document
        ranks: Ranks = ALONE,                  # this process among those that train the model together
    ):
        if settings.reading == "streams" and model.context is not None:
            raise SettingError("training.reading = 'streams' carries the state on without end, but this model reads "
                               f"at most {model.context} tokens: use training.reading = 'windows'")
        if settings.reading == "streams" and batches.batch_size < ranks.count:
            raise SettingError(f"--batch {batches.batch_size}: each of {ranks.count} ranks reads a row of every batch "
                               f"in training.reading = 'streams': give --batch {ranks.count} at least, or fewer ranks")
        self.model, self.batches, self.forward_backward, self.say = model, batches, forward_backward, say
        self.ranks, self.seed, self.limit = ranks, settings.seed, settings.clip or math.inf
        self.ahead = model.device.type == "cuda"           # the loop is one step ahead of the figures it reads
        self.bfloat16 = uses_bfloat16(model, settings)
        self.carries = settings.reading == "streams"
        self.carried: State | None = None                  # the state at the end of the last batch, in streams
        few_widths = settings.reading == "documents" and (forward_backward.compiled or forward_backward.recorded)
        self.widest = context if few_widths else None
        self.make_updates(settings)
        self.record_updates()

    def make_updates(self, settings: TrainingSettings) -> None:
        """Make what updates the weights: optimisers, and their average."""
        self.records = not why_updates_are_eager(self.model, settings.compile)
        self.optimizers = Optimizers(self.model, settings, ALONE if self.records else self.ranks)
        self.average: Average | None = Average(self.model, settings.ema) if settings.ema else None

    def record_updates(self) -> None:
        """Record clipping and the update of a small model on a GPU anew: a graph keeps the optimisers' tensors."""
        weights = list(self.model.parameters())
        self.trained: list[nn.Parameter] = [weight for weight in weights if weight.requires_grad]
        self.clip_gradients: Callable[[], Tensor] = partial(clip_gradients, weights, self.limit, on_host=not self.ahead)
        self.update_weights: Callable[[], None] = partial(update_weights, self.optimizers, self.average)
        self.static_gradients: StaticGradients | None = StaticGradients(self.model) if self.records else None
        if self.records:
            self.clip_gradients = RecordedWork(self.clip_gradients, self.say)
            self.update_weights = RecordedWork(self.update_weights, self.say)

    def set_rate(self, share: float) -> None:
        """Set what the next update reads: the learning rates, as a share of the highest, and the average's weight."""
        self.optimizers.set_rate(share)
        if self.average is not None:
            self.average.next()

    def backward(self, step: int, micro_batch: int) -> tuple[Tensor, int, int]:
        """Put the gradients of batch number `step` in place; return loss, tokens read and rows at once.

        Nothing waits for a GPU. When memory runs out, half as many rows go at once and the batch is tried again.
        """
        self.ranks.begin_step(self.seed, step)
        whole = self.batches.batch(step)
        batch, share = self.take_part(whole)
        state = self.state_before(step, batch)
        while True:
            if not self.model.training:                        # asked first: for a small model, train() takes longer
                self.model.train()
            self.optimizers.zero_grad()
            rows = micro_batch or len(batch.tokens)
            try:
                loss, after = self.accumulate(batch, state, rows, share)
                break
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not out_of_memory(error) or rows == 1:
                    raise no_memory(error) if out_of_memory(error) else error from None
            micro_batch = max(1, rows // 2)
            self.forward_backward.free_graphs()
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
            self.say(f"out of memory with {rows} rows at once: going on with {micro_batch} at once, "
                     f"{len(whole.tokens)} a step as before")
        if self.static_gradients is not None:
            self.static_gradients.copy()
        self.carried = after
        return self.ranks.exchange(loss, self.trained, batch.read), whole.read, micro_batch

    def take_part(self, whole: Batch) -> tuple[Batch, float]:
        """Return this rank's rows of a batch, and the share of each real target in the loss of the whole batch."""
        return self.ranks.part(whole)

    def accumulate(self, batch: Batch, state: State | None, rows: int, share: float) -> tuple[Tensor, State | None]:
        """Add up the gradients of a batch, so many rows at once, with a share of the loss for each real target; return
        its loss and the detached state after it."""
        total = torch.zeros((), device=self.model.device)
        states: list[State] = []
        for first in range(0, len(batch.tokens), rows):
            micro_batch = self.widen(batch.rows(first, first + rows)).to(self.model.device)
            before = None if state is None else state.map(lambda t: t[first : first + rows])   # noqa: B023
            loss, after = self.forward_backward(micro_batch, before, share)
            total += loss
            if after is not None:
                states.append(after)
        return total, None if state is None else concatenate(states).detach()

    def widen(self, batch: Batch) -> Batch:
        """Pad documents to one of four widths where each shape is compiled or recorded anew; pairs have few already."""
        return batch if not self.widest else batch.widened(-(-self.widest // 4), self.widest)

    def state_before(self, step: int, batch: Batch) -> State | None:
        if not self.carries:
            return None
        if self.carried is None or self.batches.fresh(step):
            return self.start_state(batch)
        return self.carried

    def start_state(self, batch: Batch) -> State | None:
        return self.model.start(len(batch.tokens), batch.tokens.shape[1])

    def describe_ranks(self, say: Callable[[str], None], settings: TrainingSettings) -> None:
        """Say how many ranks there are, what each holds and what travels; of one, nothing."""
        self.ranks.describe(say, self.model, settings)

    def gathered(self) -> AbstractContextManager[None]:
        """Return a block in which all weights are at hand; they always are, unless they are dealt out over ranks."""
        return nullcontext()

    def averaged_weights(self) -> AbstractContextManager[None]:
        """Give the model its averaged weights for the length of a block, where they are averaged."""
        return nullcontext() if self.average is None else self.average.in_place()


def tokens_a_step(batches: Any) -> int:
    """Return the tokens read in a step; on average, where steps differ."""
    return max(1, int(getattr(batches, "tokens_a_step", 0)) or batches.batch(0).read)


# --------------------------------------------------------------------------------- forward and backward


class ForwardBackward:
    """Forward and backward over a batch or some of its rows, eager or compiled."""

    recorded = False

    def __init__(
        self, model: Learner, *, bfloat16: bool, compiled: bool = False, recompute: str = "no", cast_once: bool = True
    ):
        self.model, self.bfloat16, self.compiled, self.recompute = model, bfloat16, compiled, recompute
        self.cast_once = cast_once                            # each weight to bfloat16, for all its uses in a pass
        products.prepare(model.device, bfloat16)
        layers: list[Any] = [module for module in model.modules() if hasattr(module, "recompute")]
        share = {"no": 0.0, "layers": 0.0, "some": SOME}.get(recompute, 1.0)
        for number, layer in enumerate(layers):                # spread evenly
            layer.recompute = int((number + 1) * share) > int(number * share)
        model.head.sparing = recompute != "no"
        if recompute == "layers":
            recompute_layers(model)
        self.loss: Callable[..., Any] = model.loss
        if compiled:
            compiled_code.keep()
            # On a CPU the calls between kernels are compiled, too: Python takes as long for them as some kernels do.
            options: dict[str, Any] | None = {"cpp_wrapper": True} if model.device.type == "cpu" else None
            self.loss = torch.compile(model.loss, dynamic=False, options=options)

    def __call__(self, batch: Batch, state: State | None, share: Tensor | float) -> tuple[Tensor, State | None]:
        """Add the gradients of the summed loss times `share`; return that loss and the state after the batch."""
        device = self.model.device
        with kernels.arithmetic(device, self.bfloat16):
            with torch.autocast(device.type, torch.bfloat16, enabled=self.bfloat16, cache_enabled=self.cast_once):
                shares = batch.mask(torch.ones_like(batch.targets, dtype=torch.float32)) * share      # (B, T)
                with recompute_activations(self.recompute):
                    loss, after = self.loss(
                        batch.tokens, batch.targets, shares, state, batch.lengths, *batch.source_items())
            loss.backward()
        return loss.detach(), after

    def free_graphs(self) -> None:
        """Do nothing: an eager or compiled pass holds no recorded graphs."""


def make_forward_backward(
    model: Learner, settings: TrainingSettings, say: Callable[[str], None]
) -> ForwardBackward | RecordedForwardBackward:
    """Choose by training.compile: `yes` compiles, `capture` records, `graphs` does both; on a GPU `auto` compiles, and
    also records all but a very large model."""
    wish, gpu = settings.compile, model.device.type == "cuda"
    compiled = wish in ("yes", "graphs") or (wish == "auto" and gpu)
    weights = sum(weight.numel() for weight in model.parameters())
    recorded = gpu and (wish in ("capture", "graphs") or (wish == "auto" and weights <= MOST_RECORDED))
    # Recorded, a weight cast once would be cast once for all replays. Eager passes beside it cast as often: compiled
    # code would otherwise be compiled anew for them.
    eager = ForwardBackward(model, bfloat16=uses_bfloat16(model, settings), compiled=compiled,
                            recompute=settings.recompute, cast_once=not recorded)
    return RecordedForwardBackward(eager, model, say, compiled=compiled) if recorded else eager


def uses_bfloat16(model: Learner, settings: TrainingSettings) -> bool:
    return to_bfloat16(model.device, settings)


def to_bfloat16(device: torch.device, settings: TrainingSettings) -> bool:
    return settings.precision == "bfloat16" or (settings.precision == "auto" and device.type == "cuda")


# ----------------------------------------------------------------------------------- clipping and update


def clip_gradients(weights: list[nn.Parameter], limit: float, *, on_host: bool) -> Tensor:
    """Scale the gradients down to a norm of `limit` at most; return the norm they had."""
    if not on_host:
        return nn.utils.clip_grad_norm_(weights, limit)
    norm = gradient_norm([weight.grad for weight in weights if weight.grad is not None])
    if not norm + 1e-6 <= limit:                               # where it can be known at once: most are short enough
        nn.utils.clip_grads_with_norm_(weights, limit, norm)
    return norm


def gradient_norm(gradients: list[Tensor]) -> Tensor:
    """Return the root of all squares. A dot product with itself reads a tensor twice as quickly as a CPU's norm of it
    does, and adds up more exactly."""
    squares = [torch.dot(flat, flat) for flat in (each.reshape(-1) for each in gradients)]
    return torch.stack(squares).sum().sqrt() if squares else torch.zeros(())


def update_weights(optimizers: Optimizers, average: Average | None) -> None:
    """Step the optimisers, then move the average towards the new weights."""
    optimizers.step()
    if average is not None:
        average.update()


def concatenate(states: list[State]) -> State:
    """Return the states of consecutive rows as one."""
    columns = iter([torch.cat(parts) for parts in zip(*(s.tensors().values() for s in states), strict=True)])
    return states[0].map(lambda _: next(columns))
