"""Embeddings: a vector for each token, times one number.

Vaswani et al. 2017, section 3.4, multiply by the square root of the width where sinusoids are added: each sine and
cosine is about 0.7, an embedding starts far below that, and what is added must not drown what it is added to.
B batch · T time · D width · V vocabulary
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.contract import Role
from regard.layers.roles import EMBEDDING


class Embedding(nn.Embedding):
    """scale * E[w], (B, T) to (B, T, D). The weight is E itself: a tied head reads it without the scale."""

    def __init__(self, vocab: int, width: int, *, scale: float = 1.0, std: float = 0.02):
        super().__init__(vocab, width)
        self.scale = scale
        self.alike: Tensor | None
        self.register_buffer("alike", None, persistent=False)
        nn.init.normal_(self.weight, std=std)

    def parameter_roles(self) -> dict[str, Role]:
        return {"weight": EMBEDDING}

    def leave_out(self, missing: Mapping[int, int]) -> None:
        """Read each of these tokens as another one, whose row it has from now on."""
        if any(token != other for token, other in missing.items()):
            alike = torch.arange(len(self.weight), device=self.weight.device)
            alike[list(missing)] = torch.tensor(list(missing.values()), device=alike.device)
            self.alike = alike

    def forward(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = super().forward(tokens if self.alike is None else self.alike[tokens])
        return vectors if self.scale == 1.0 else vectors * self.scale
