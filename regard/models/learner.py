"""A learner: what the training loop asks of a model, whatever its task.

It scores targets, it says what there is to save, and it takes that up again.   B batch · T time
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import Source, State, module_tensors
from regard.errors import RunError
from regard.models.head import Head


class Learner(nn.Module, ABC):
    """A model that learns by gradients."""

    vocab: int
    context: int | None = None       # the most tokens read at once; None: no limit
    head: Head

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @abstractmethod
    def score(
        self, tokens: Tensor, targets: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """(B, T) log-probabilities of the targets, and the state after the tokens, for those that carry one."""

    def learn(
        self, tokens: Tensor, targets: Tensor, state: Any = None, lengths: Tensor | None = None,
        source: Tensor | None = None, source_lengths: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """The training path: the same scores, of a target that may have a source, one a row; then nothing goes on."""
        if source is None:
            return self.score(tokens, targets, state, lengths)
        start = self.start(len(tokens), None, Source(source, source_lengths))
        return self.score(tokens, targets, start, lengths)[0], None

    def loss(
        self, tokens: Tensor, targets: Tensor, shares: Tensor, state: Any = None, lengths: Tensor | None = None,
        source: Tensor | None = None, source_lengths: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """- sum(shares * learn(...)), one number, and the state: what a training step goes back from."""
        scores, after = self.learn(tokens, targets, state, lengths, source, source_lengths)
        return -(scores * shares).sum(), after

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> State | None:
        """The state before the first token; None for what is always read whole."""
        return None

    def saved_tensors(self) -> dict[str, Tensor]:
        """Everything that was learned, under names; a tied tensor stands under the first of its names."""
        return module_tensors(self)

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take up what `saved_tensors` gave. Every tensor must be there, and fit."""
        own = self.saved_tensors()
        for name in [*own, *tensors]:
            if name not in own or name not in tensors or own[name].shape != tensors[name].shape:
                raise RunError(f"the weights do not fit the model: {name} is missing, superfluous or of another shape")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(tensors[name])
