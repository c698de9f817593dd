"""Self-attention in both directions: each position reads every real position of its row, earlier and later ones.

Vaswani et al. 2017, section 3.2; Devlin et al. 2018.   B batch · T time · D width · H heads
K, V widths of a head
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.contract import Role
from regard.kernels.linear import Linear
from regard.layers.attend import attend
from regard.layers.positions import Rotary, make_slopes
from regard.layers.projections import head_widths, parts_of, project_heads
from regard.layers.roles import RESIDUAL
from regard.layers.scores import make_score
from regard.layers.whole import WholeLayer, real_positions


class FullAttention(WholeLayer):
    """softmax(q k^T / sqrt K) v over all real positions, in H heads, concatenated and mixed by one matrix.

    q, k and v are f(W c), in heads of any width; a location score reads no keys, and there are none.
    """

    def __init__(
        self, width: int, *, heads: int, positions: str = "rotary", score: str = "scaled-dot", places: int = 128,
        rotary_base: float = 10000.0, rotary_share: float = 1.0, f: str = "none", head_width: int = 0,
        value_width: int = 0, unread_keys: bool = False, dropout: float = 0.0, bias: str = "none",
    ):
        super().__init__()
        self.d_in = self.d_out = width
        self.heads, self.dropout, self.f, self.maps = heads, dropout, f, heads
        width_of_head, value = head_widths(width, heads, head_width, value_width)
        keys = 0 if score == "location" and not unread_keys else width_of_head
        self.sizes = [heads * each for each in (width_of_head, keys, value)]
        self.qkv = Linear(width, sum(self.sizes), bias=bias != "none")
        self.out = Linear(heads * value, width, bias=bias == "all")
        turns = positions == "rotary"
        self.rotary = Rotary(width_of_head, base=rotary_base, share=rotary_share) if turns else None
        self.register_buffer("slopes", make_slopes(positions, heads), persistent=False)
        self.score = None if score == "scaled-dot" else make_score(score, heads, width_of_head, places=places)

    slopes: Tensor | None
    reads = "encoder"

    def parameter_roles(self) -> dict[str, Role]:
        return {"qkv.weight": Role("matrix", parts_of(*self.sizes)), "out.weight": RESIDUAL}

    def forward(self, x: Tensor, state: None = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        positions = torch.arange(x.shape[1], device=x.device)
        q, k, v = self.queries_keys_values(x, positions)
        # Without this mask a row would read the pads behind it: nothing here is hidden by causality.
        readable = None if lengths is None else real_positions(lengths, x.shape[1])[:, None, None]
        y = attend(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask=readable, bias=self.bias(positions),
            score=self.score, dropout=self.dropout if self.training else 0.0, seen_by=self, queries=positions,
            keys=positions)
        return self.out(y.transpose(1, 2).flatten(2)), None

    def queries_keys_values(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, H, K), twice, and (B, T, H, V); queries and keys turned by their positions, where positions turn."""
        q, k, v = project_heads(x, self.qkv, self.sizes, (self.heads,) * 3, self.f)
        return *((q, k) if self.rotary is None else self.rotary.turn(q, k, at)), v

    def bias(self, at: Tensor) -> Tensor | None:
        """(H, T, T): with ALiBi, scores fall with distance, to either side."""
        if self.slopes is None:
            return None
        return -self.slopes[:, None, None] * (at[:, None] - at).abs().to(self.slopes.dtype)
