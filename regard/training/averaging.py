"""An exponential moving average of the weights: w' = d w' + (1 - d) w after every update, with d warmed up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """Averaged weights beside the trained ones; validation and the kept weights use them."""

    def __init__(self, model: nn.Module, decay: float):
        self.model, self.decay = model, decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.updates = torch.zeros((), dtype=torch.long)
        self.weights["updates"] = self.updates

    @torch.no_grad()
    def update(self) -> None:
        self.updates += 1
        count = int(self.updates)
        decay = min(self.decay, (1 + count) / (10 + count))        # an early average forgets the first weights sooner
        trained = dict(self.model.named_parameters())
        torch._foreach_lerp_([self.weights[name] for name in trained], list(trained.values()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model with its averaged weights, for the length of a block."""
        trained = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self._put(self.weights)
        try:
            yield
        finally:
            self._put(trained)

    def load(self, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(weights[name])

    @torch.no_grad()
    def _put(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])
