"""The prediction head: from a position's vector to log-probabilities of the next token.

Scoring needs one number a target and the loss of a training step one number in all, so neither holds (B, T, V) logits
when these are many (`kernels/log_softmax.py`, `kernels/cross_entropy.py`).
B batch · T time · D width · V vocabulary
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.contract import Role
from regard.kernels.cross_entropy import cross_entropy
from regard.kernels.log_softmax import log_probabilities, score_targets
from regard.layers.roles import WEIGHT


class Head(nn.Module):
    """softmax(W h), or softmax(W h + b) with a `bias`.

    In training, `smoothing` gives that share of each target's weight to the whole vocabulary. With a `softcap` c the
    logits are c tanh(W h / c): none is ever beyond c. A token with a bias far below zero is never written.
    """

    sparing = False                # in training: hold fewer logits at once

    def __init__(self, d_in: int, vocab: int, *, embedding: nn.Embedding | None = None, smoothing: float = 0.0,
                 softcap: float = 0.0, bias: bool = False):
        super().__init__()
        self.smoothing, self.softcap, self.tied = smoothing, softcap, embedding is not None
        if embedding is None:
            self.project: nn.Module = nn.Identity()
            self.weight: Tensor = nn.Parameter(torch.empty(vocab, d_in))
            nn.init.zeros_(self.weight)             # every token is equally likely before the first step
        else:                                   # tied: predicting a word means resembling its embedding
            width = embedding.embedding_dim
            self.project = nn.Identity() if d_in == width else nn.Linear(d_in, width, bias=False)
            self.weight = embedding.weight
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None

    def parameter_roles(self) -> dict[str, Role]:
        return {"weight": WEIGHT} if not self.tied else {}              # a tied one is the embedding's

    def forward(self, h: Tensor) -> Tensor:
        """(..., D) to (..., V) log-probabilities, in float32 or better."""
        return log_probabilities(self.project(h), self.weight, self.softcap, self.bias)

    def score(self, h: Tensor, targets: Tensor) -> Tensor:
        """(B, T) log-probabilities of the targets (B, T); smoothed while training."""
        return score_targets(*self._flat(h, targets), self._smoothing, self.softcap, self.bias).view(targets.shape)

    def loss(self, h: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        """- sum(shares * score(h, targets)), one number: how a training step asks."""
        return cross_entropy(*self._flat(h, targets), shares.flatten(), self._smoothing, self.softcap, self.sparing,
                             self.bias)

    def _flat(self, h: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.project(h).flatten(0, 1), self.weight, targets.flatten()

    @property
    def _smoothing(self) -> float:
        return self.smoothing if self.training else 0.0
