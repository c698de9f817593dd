"""The loss and the gradient's norm of a step, which the loop reads when they have come.

A GPU is told what to do and goes on working while the host goes on telling. Were the loss read at once, the host would
wait for the GPU, and the GPU then for the host, in every step. So on a GPU the loop is one step ahead of what it reads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.errors import TrainingStopped


class Figures:
    """Two numbers of a step, on their way to the host."""

    def __init__(self, step: int, loss: Tensor, norm: Tensor):
        self.step = step
        both = torch.stack((loss.detach().double(), norm.detach().double()))
        self.held, self.sent = both, None
        if both.is_cuda:
            self.held = torch.empty(2, dtype=torch.float64, pin_memory=True).copy_(both, non_blocking=True)
            self.sent = torch.cuda.Event()
            self.sent.record()

    def read(self) -> tuple[float, float]:
        """Loss and norm, once they are there. One that is not finite ends the training."""
        if self.sent is not None:
            self.sent.synchronize()
        loss, norm = self.held.tolist()
        require_finite(self.step, loss=loss, gradient=norm)
        return loss, norm


def require_finite(step: int, **values: float) -> None:
    """Stop before anything is saved: a weight that is not a number never comes back."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise TrainingStopped(
                f"the {name} became {value} at step {step:,}; nothing of it is saved and the last checkpoint is good: "
                "go on with --resume and a lower --rate")
