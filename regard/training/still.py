"""Gradients that stay where they are, and work on them recorded as CUDA graphs.

Clipping, two optimisers and an average are some hundred kernels on numbers that never move, and for a small model the
host takes longer to ask for them than the GPU to do them. Recorded once, they are asked for in one word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.kernels.recording import recording

AFTER = 3                      # times as it is before it is recorded: what optimisers remember is made on the way
MOST_WEIGHTS = 50_000_000      # beyond, the GPU takes longer than the host anyway, and gradients are not copied for it


def pays(model: nn.Module, wish: str) -> bool:
    """Whether updates are recorded: on a GPU, for a small model, unless nothing is to be compiled or recorded."""
    return not why_not(model, wish)


def why_not(model: nn.Module, wish: str) -> str:
    weights = list(model.parameters())
    if not all(weight.is_cuda for weight in weights):
        return "not on a GPU"
    if wish == "no":
        return "training.compile = no"
    large = sum(weight.numel() for weight in weights) > MOST_WEIGHTS
    return f"more than {MOST_WEIGHTS:,} weights keep a GPU busy" if large else ""


class StillGradients:
    """One tensor a weight, into which the gradients of each step are copied."""

    def __init__(self, model: nn.Module):
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.held = [torch.zeros_like(weight) for weight in self.weights]

    @torch.no_grad()
    def take(self) -> None:
        """Copy what the last pass left; a weight that it did not reach has a gradient of zero."""
        moved = [(held, weight.grad) for held, weight in zip(self.held, self.weights, strict=True)
                 if weight.grad is not None and weight.grad is not held]
        if moved:
            torch._foreach_copy_([held for held, _ in moved], [grad for _, grad in moved])
        for held, weight in zip(self.held, self.weights, strict=True):
            if weight.grad is None:
                held.zero_()
            weight.grad = held


class Recorded:
    """Work on tensors that stay where they are: as it is the first few times, then one launch. Its result stays too."""

    def __init__(self, work: Callable[[], Any], say: Callable[[str], None]):
        self.work, self.say = work, say
        self.calls = 0
        self.replay: Callable[[], Any] | None = None
        self.refused = False
        self.result: Any = None

    def __call__(self) -> Any:
        self.calls += 1
        if self.replay is None and self.calls > AFTER and not self.refused:
            self._try()
        if self.replay is None:
            return self.work()
        self.replay()
        return self.result

    def _try(self) -> None:
        try:
            self.replay = self.record()
        except RuntimeError as error:                         # of CUDA; a real mistake comes back in the work as it is
            torch.cuda.synchronize()
            self.refused = True
            why = str(error).splitlines()[0]
            self.say(f"updates go on as they are: they cannot be recorded as a CUDA graph ({why})")

    def record(self) -> Callable[[], Any]:
        graph = torch.cuda.CUDAGraph()
        with recording(graph):
            self.result = self.work()
        return graph.replay


def scalar(value: float, device: torch.device) -> Tensor | float:
    """A number that recorded work reads anew each time: on a GPU a tensor that is filled."""
    return torch.tensor(value, dtype=torch.float32, device=device) if device.type == "cuda" else value
