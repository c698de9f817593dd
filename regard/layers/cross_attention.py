"""Cross-attention: each position of the target reads the whole source.

Bahdanau et al. 2014; Vaswani et al. 2017, section 3.2.3.
B rows, k beams for each of S sources · T time · D width · L source length · H heads · K head width
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.contract import Memory, SequenceLayer, State, of_source, watching
from regard.errors import SettingError
from regard.kernels import attend_source
from regard.layers.attend import attend, row_by_row
from regard.layers.packed import Linear
from regard.layers.scores import Score, make_score
from regard.layers.self_attention import check_heads


@dataclass
class SourceKeys(State):
    """The projected source: one row a source, which its beams share."""

    keys: Tensor = of_source()             # (S, H, L, K)
    values: Tensor = of_source()           # (S, H, L, K)
    lengths: Tensor = of_source()          # (S,)


class CrossAttention(SequenceLayer):
    """A(q, K, V) with queries from the target, keys and values from the source; any score e(q, k)."""

    def __init__(
        self, width: int, d_memory: int, *, heads: int, score: str = "scaled-dot", places: int = 128,
        dropout: float = 0.0, bias: bool = False,
    ):
        super().__init__()
        check_heads(width, heads)
        self.d_in = self.d_out = width
        self.heads, self.dropout = heads, dropout
        self.q = Linear(width, width, bias=bias)
        self.kv = Linear(d_memory, 2 * width, bias=bias)
        self.kv.weight.parts = 2                               # type: ignore[attr-defined]  # two matrices in one
        self.out = Linear(width, width, bias=bias)
        self.score = None if score == "scaled-dot" else make_score(score, heads, width // heads, places=places)

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> SourceKeys:
        if memory is None:
            raise SettingError("cross-attention reads a source: start it with one")
        keys, values = self.kv(memory.vectors).unflatten(-1, (2, self.heads, -1)).unbind(2)      # (S, L, H, K)
        return SourceKeys(keys.transpose(1, 2), values.transpose(1, 2), memory.lengths)

    def forward(
        self, x: Tensor, state: SourceKeys | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, SourceKeys]:
        if state is None:
            raise SettingError("cross-attention reads a source: start it with one")
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)                 # (B, H, T, K)
        y = read_source(q, state, score=self.score, dropout=self.dropout if self.training else 0.0, seen_by=self)
        return self.out(y.transpose(1, 2).flatten(2)), state


def read_source(q: Tensor, state: SourceKeys, **options: Any) -> Tensor:
    """What queries (B, H, T, K) read of their sources: (B, H, T, K). The beams of a source read it side by side."""
    keys, values = state.keys.to(q.dtype), state.values.to(q.dtype)
    y = in_one_step(q, keys, values, state.lengths, **options)
    if y is not None and watching() is None:
        return y
    mask = (torch.arange(keys.shape[2], device=q.device) < state.lengths[:, None])[:, None, None]     # (S, 1, 1, L)
    beams = q.shape[0] // keys.shape[0]
    if beams > 1:
        q = q.unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)                 # (S, H, k T, K)
    in_full = row_by_row(attend(q, keys, values, mask=mask, beams=beams, **options), beams)
    return in_full if y is None else y                       # who watches is shown the weights, and changes nothing


def in_one_step(
    q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, *, score: Score | None = None, dropout: float = 0.0,
    seen_by: object = None,
) -> Tensor | None:
    """The same by a kernel for one new token, where nothing bends the scores and nobody edits them; else None."""
    recorder = watching()
    edited = recorder is not None and recorder.edit is not None
    if score is not None or dropout or edited or not attend_source.can(q, keys, values):
        return None
    return attend_source.attend_source(q[:, :, 0], keys, values, lengths)[:, :, None]
