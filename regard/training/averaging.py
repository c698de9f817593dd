"""An exponential moving average of the weights: w' = d w' + (1 - d) w after every update, with d warmed up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.training.recorded_step import scalar


class Average:
    """Averaged weights beside the trained ones; validation and the kept weights use them."""

    def __init__(self, model: nn.Module, decay: float, own: dict[str, nn.Parameter] | None = None):
        self.model, self.decay = model, decay
        self.trained = dict(model.named_parameters()) if own is None else own          # `own`: a rank's shares of them
        self.weights = {name: p.detach().clone() for name, p in self.trained.items()}
        self.updates = torch.zeros((), dtype=torch.long)
        self.weights["updates"] = self.updates
        self.share = scalar(1.0, next(iter(self.trained.values())).device)         # of the new weights in the average

    def next(self) -> None:
        """Set the weight of the new weights in the average; call it before each update."""
        self.updates += 1
        count = int(self.updates)
        share = 1 - min(self.decay, (1 + count) / (10 + count))    # an early average forgets the first weights sooner
        if isinstance(self.share, Tensor):                         # on a GPU: a recorded update reads it where it is
            self.share.fill_(share)
        else:
            self.share = share

    @torch.no_grad()
    def update(self) -> None:
        averaged = [self.weights[name] for name in self.trained]
        change = torch._foreach_sub(list(self.trained.values()), averaged)
        torch._foreach_mul_(change, self.share)
        torch._foreach_add_(averaged, change)

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
