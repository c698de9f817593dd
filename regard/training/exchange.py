"""The exchange of a step: one flat tensor that travels, a stopwatch for each rank, and who works on which matrix."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.data.batching.text_batches import sent

ALIGNED = 64                   # numbers: each gradient begins at a multiple of so many
FIGURES = ("loss", "lost", "asked", "seconds", "tokens")       # what each rank says with every step


class Exchange:
    """One flat tensor that travels: what each rank says of the step, and behind it every gradient."""

    def __init__(self, weights: Sequence[Tensor], count: int, like: Tensor):
        self.weights, head = list(weights), aligned(count * len(FIGURES))
        self.begins = [head]
        for weight in self.weights:
            self.begins.append(self.begins[-1] + aligned(weight.numel()))
        self.flat = torch.zeros(self.begins[-1], dtype=like.dtype, device=like.device)
        self.table = self.flat[:count * len(FIGURES)].view(count, len(FIGURES))
        self.gradients = self.flat[head:]
        self.views = [self.flat[begin:begin + weight.numel()].view_as(weight)
                      for begin, weight in zip(self.begins, self.weights, strict=False)]

    def fill(self, number: int, loss: Tensor, said: Sequence[float]) -> None:
        """Copy this rank's gradients, and what it says, into the tensor."""
        self.copy(slice(None))
        self.say(number, loss, said, self.gradients.sum())

    @torch.no_grad()
    def copy(self, which: slice) -> None:
        """Copy the gradients of some weights into the tensor; a weight out of reach has a gradient of 0."""
        views, weights = self.views[which], self.weights[which]
        pairs = [(view, weight.grad) for view, weight in zip(views, weights, strict=True)
                 if weight.grad is not None and weight.grad is not view]
        if pairs:
            torch._foreach_copy_([view for view, _ in pairs], [gradient for _, gradient in pairs])
        for view, weight in zip(views, weights, strict=True):
            if weight.grad is None:
                view.zero_()

    def say(self, number: int, loss: Tensor, said: Sequence[float], total: Tensor) -> None:
        """Write down this rank's loss, what else it says, and whether the total of its gradients is finite."""
        self.table.zero_()
        self.table[number, 0] = loss
        self.table[number, 1] = (~torch.isfinite(total)).to(self.flat.dtype)
        self.table[number, 2:] = sent(torch.tensor(said, dtype=self.flat.dtype), self.flat.device)

    def add_up(self, group: Any) -> None:
        """Add up the tensors of all ranks of a group."""
        group.sum(self.flat, quick=True)

    def put_back(self) -> Tensor:
        """Give the weights the gradients of the whole batch; return its loss. What no rank reached has none."""
        for view, weight in zip(self.views, self.weights, strict=True):
            if weight.grad is not None:
                weight.grad = view
        return self.table[:, 0].sum()


class Stopwatch:
    """The seconds that each rank takes for its share of a step, without its waits for others."""

    def __init__(self, count: int):
        self.began, self.longest = 0.0, 0.0
        self.events: Any = None                                # on a GPU: begin and end of the step before
        self.last = [(0.0, 0.0)] * count                       # seconds and tokens of a step, by rank
        self.sums = [0.0] * count                              # seconds since they were compared

    def start(self) -> None:
        self.began = time.monotonic()
        if torch.cuda.is_initialized():
            self.begin = torch.cuda.Event(enable_timing=True)
            self.begin.record()

    def seconds(self, gpu: bool) -> float:
        """Return the seconds since `start`; on a GPU, for which nothing waits, those of the step before, or 0."""
        took = time.monotonic() - self.began
        self.longest = max(self.longest, took)
        if not gpu:
            return took
        before, end = self.events, torch.cuda.Event(enable_timing=True)
        end.record()
        self.events = self.begin, end
        return before[0].elapsed_time(before[1]) / 1000 if before is not None and before[1].query() else 0.0

    def note(self, seconds: Sequence[float], tokens: Sequence[float]) -> None:
        """Note what all ranks took for a step."""
        self.last = list(zip(seconds, tokens, strict=True))
        self.sums = [before + took for before, took in zip(self.sums, seconds, strict=True)]

    def speeds(self) -> list[int]:
        """Return the tokens a second of each rank in the last step; 0 where they are not known."""
        return [round(tokens / seconds) if seconds > 0 else 0 for seconds, tokens in self.last]

    def straggler(self) -> tuple[int, float, float]:
        """Return the slowest rank since the last time this was asked, how many times as long as the middle one it took,
        and how many seconds more."""
        sums, self.sums = self.sums, [0.0] * len(self.sums)
        middle, slowest = sorted(sums)[(len(sums) - 1) // 2], max(range(len(sums)), key=sums.__getitem__)
        return slowest, sums[slowest] / middle if middle > 0 else 1.0, sums[slowest] - middle


def deal_matrices(shapes: tuple[tuple[int, ...], ...], count: int) -> list[list[int]]:
    """Return the rank of each matrix of each stack (N, rows, columns): the dearest first, to whom has least to do."""
    work = [(rows * columns * min(rows, columns), stack, number)
            for stack, (several, rows, columns) in enumerate(shapes) for number in range(several)]
    load, owners = [0] * count, [[0] * shape[0] for shape in shapes]
    for cost, stack, number in sorted(work, key=lambda each: (-each[0], each[1:])):
        rank = load.index(min(load))
        owners[stack][number] = rank
        load[rank] += cost
    return owners


def owned(owners: list[int], rank: int) -> list[int]:
    return [number for number, owner in enumerate(owners) if owner == rank]


def aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
