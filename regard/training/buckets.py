"""Data parallel training over a slow link: gradients travel while the backward pass goes on.

The message of a step (exchange.py) is cut into buckets, from its end: a backward pass comes to the last weights first.
A bucket leaves when the last micro-batch has added to each of its gradients. All ranks send the same buckets in the
same order; those with a weight that no pass reached leave at the end, before the one with the figures of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.contract import State
from regard.data.batching.text_batches import Batch
from regard.errors import TrainingStopped
from regard.training.exchange import Exchange, aligned
from regard.training.memory import out_of_memory
from regard.training.parallel import RankGroup
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingStep
from regard.training.traffic import say_bytes

BUCKET_BYTES = 2**25           # of gradients, at least: each message has a delay of its own


@dataclass
class GradientBucket:
    """Neighbours among the weights, and the part of the message that carries their gradients."""

    weights: slice
    part: Tensor
    missing: int = 0                       # gradients that the last micro-batch has yet to add to


class BucketedExchange(Exchange):
    """The message of a step in buckets, each of which leaves when its gradients are complete."""

    def __init__(self, weights: Sequence[Any], group: RankGroup):
        super().__init__(weights, group.count, weights[0])
        self.group = group
        self.buckets = [GradientBucket(each, self.part(each)) for each in cut_buckets(weights)]
        self.home = {number: bucket for bucket in self.buckets
                     for number in range(bucket.weights.start, bucket.weights.stop)}
        for number, weight in enumerate(weights):
            weight.register_post_accumulate_grad_hook(partial(self.arrive, number))
        self.begin(1)

    def part(self, weights: slice) -> Tensor:
        """Return the part of the message with these gradients; with the first ones go the figures."""
        begin = self.begins[weights.start] if weights.start else 0
        return self.flat[begin:self.begins[weights.stop]]

    def begin(self, passes: int) -> None:
        """Expect the gradients of so many micro-batches."""
        self.left = [passes] * len(self.weights)               # passes that have yet to add to each gradient
        self.gone = 0                                          # buckets that have left
        self.sums: list[Tensor] = []                           # of this rank's gradients in each of them
        self.waits: list[Callable[[], None]] = []
        for bucket in self.buckets:
            bucket.missing = bucket.weights.stop - bucket.weights.start

    def arrive(self, number: int, weight: Tensor) -> None:
        """Note that a micro-batch has added to a gradient; send what is complete."""
        self.left[number] -= 1
        assert self.left[number] >= 0, "a gradient came after its bucket had left"
        if self.left[number] == 0:
            self.home[number].missing -= 1
            while self.gone < len(self.buckets) - 1 and self.buckets[self.gone].missing == 0:
                self.send_next()

    def send_next(self) -> None:
        bucket = self.buckets[self.gone]
        self.copy(bucket.weights)
        self.sums.append(sum_of(self.views[bucket.weights]))   # before others add to it, in place
        self.waits.append(self.group.begin_sum(bucket.part))
        self.gone += 1

    def fill(self, number: int, loss: Tensor, said: Sequence[float]) -> None:
        while self.gone < len(self.buckets) - 1:
            self.send_next()
        last = self.buckets[-1].weights
        self.copy(last)
        self.say(number, loss, said, torch.stack([*self.sums, sum_of(self.views[last])]).sum())

    def add_up(self, group: RankGroup) -> None:
        self.waits.append(group.begin_sum(self.buckets[-1].part))
        for wait in self.waits:
            wait()


def cut_buckets(weights: Sequence[Tensor]) -> list[slice]:
    """Return the weights in buckets of so many bytes at least, the last weights first."""
    found, end, size = list[slice](), len(weights), 0
    for number in reversed(range(len(weights))):
        size += aligned(weights[number].numel()) * weights[number].element_size()
        if size >= BUCKET_BYTES or number == 0:
            found.append(slice(number, end))
            end, size = number, 0
    return found


def sum_of(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([each.sum() for each in tensors]).sum()


class BucketedStep(TrainingStep):
    """A training step whose gradients travel in buckets. Memory that runs out once one has left stops all ranks."""

    way = "buckets"
    buckets: BucketedExchange | None = None

    def accumulate(self, batch: Batch, state: State | None, rows: int, share: float) -> tuple[Tensor, State | None]:
        if not isinstance(self.ranks, RankGroup):              # a step is timed, which sends nothing
            return super().accumulate(batch, state, rows, share)
        if self.buckets is None:
            self.buckets = BucketedExchange(self.trained, self.ranks)
        self.ranks.exchanges = self.buckets
        self.buckets.begin(-(-len(batch.tokens) // rows))
        try:
            return super().accumulate(batch, state, rows, share)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if self.buckets.gone and out_of_memory(error):     # the others have what this pass did not complete
                raise stopped_by_memory(error, rows) from None
            raise

    def describe_ranks(self, say: Callable[[str], None], settings: TrainingSettings) -> None:
        super().describe_ranks(say, settings)
        say(f"           gradients leave in {len(cut_buckets(self.trained))} buckets of {say_bytes(BUCKET_BYTES)} at "
            "least, during the backward pass of the last micro-batch")


def stopped_by_memory(error: BaseException, rows: int) -> TrainingStopped:
    cure = (f"--parallel data, or training.micro_batch={max(1, rows // 2)}" if rows > 1 else
            "a smaller --width, --layers or --context")
    return TrainingStopped(f"out of memory with {rows} row{'s' * (rows > 1)} at once, after some gradients had been "
                           f"sent: go on with --resume and {cure} ({str(error).splitlines()[0]})")
