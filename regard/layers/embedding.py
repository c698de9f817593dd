"""Embeddings: a vector for each token, times one number.

Vaswani et al. 2017, section 3.4, multiply by the square root of the width where sinusoids are added: each sine and
cosine is about 0.7, an embedding starts far below that, and what is added must not drown what it is added to.
B batch · T time · D width · V vocabulary
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.contract import Role
from regard.layers.roles import EMBEDDING


class Embedding(nn.Embedding):
    """scale * E[w], (B, T) to (B, T, D). The weight is E itself: a tied head reads it without the scale."""

    def __init__(self, vocab: int, width: int, *, scale: float = 1.0, std: float = 0.02):
        super().__init__(vocab, width)
        self.scale = scale
        nn.init.normal_(self.weight, std=std)

    def parameter_roles(self) -> dict[str, Role]:
        return {"weight": EMBEDDING}

    def forward(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = super().forward(tokens)
        return vectors if self.scale == 1.0 else vectors * self.scale
