"""Self-attention in both directions: each position reads every real position of its row, earlier and later ones.

Vaswani et al. 2017, section 3.2; Devlin et al. 2018.   B batch · T time · D width · H heads · K head width
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.attend import attend
from regard.layers.packed import Linear
from regard.layers.positions import Rotary, alibi_slopes
from regard.layers.scores import make_score
from regard.layers.self_attention import check_heads
from regard.layers.whole import WholeLayer, real_positions


class FullAttention(WholeLayer):
    """softmax(q k^T / sqrt K) v over all real positions, in H heads, concatenated and mixed by one matrix."""

    def __init__(
        self, width: int, *, heads: int, positions: str = "rotary", score: str = "scaled-dot", places: int = 128,
        dropout: float = 0.0, bias: bool = False,
    ):
        super().__init__()
        check_heads(width, heads)
        self.d_in = self.d_out = width
        self.heads, self.dropout = heads, dropout
        self.qkv = Linear(width, 3 * width, bias=bias)
        self.qkv.weight.parts = 3                              # type: ignore[attr-defined]  # three matrices in one
        self.out = Linear(width, width, bias=bias)
        self.rotary = Rotary(width // heads) if positions == "rotary" else None
        self.register_buffer("slopes", alibi_slopes(heads) if positions == "alibi" else None, persistent=False)
        self.score = None if score == "scaled-dot" else make_score(score, heads, width // heads, places=places)

    slopes: Tensor | None

    def forward(self, x: Tensor, state: None = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        at = torch.arange(x.shape[1], device=x.device)
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))                          # (B, T, 3, H, K)
        qk, v = qkv[:, :, :2], qkv[:, :, 2]
        if self.rotary is not None:
            qk = self.rotary(qk, self.rotary.turns(at, x.dtype))
        q, k = qk.unbind(2)                                                           # each (B, T, H, K)
        # Without this mask a row would read the pads behind it: nothing here is hidden by causality.
        readable = None if lengths is None else real_positions(lengths, x.shape[1])[:, None, None]
        y = attend(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask=readable, bias=self.bias(at),
            score=self.score, dropout=self.dropout if self.training else 0.0, seen_by=self, queries=at, keys=at)
        return self.out(y.transpose(1, 2).flatten(2)), None

    def bias(self, at: Tensor) -> Tensor | None:
        """(H, T, T): with ALiBi, scores fall with distance, to either side."""
        if self.slopes is None:
            return None
        return -self.slopes[:, None, None] * (at[:, None] - at).abs().to(self.slopes.dtype)
