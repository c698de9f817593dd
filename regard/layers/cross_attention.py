"""Cross-attention: each position of the target reads the whole source.

Bahdanau et al. 2014; Vaswani et al. 2017, section 3.2.3.
B rows, k beams for each of S sources · T time · D width · L source length · H heads · K, V widths of a head
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import Memory, Role, SequenceLayer, State, of_source
from regard.errors import SettingError
from regard.kernels.attend_source import attend_source
from regard.kernels.linear import Linear
from regard.layers.attend import attend, is_edited, row_by_row, side_by_side
from regard.layers.projections import OWN_MATRICES, Compared, bend, compared, head_widths, in_heads, parts_of
from regard.layers.roles import RESIDUAL
from regard.layers.scores import Score, make_score
from regard.watching import watching


@dataclass
class SourceKeys(State):
    """The projected source: one row a source, which its beams share."""

    keys: Tensor = of_source()             # (S, H, L, K)
    values: Tensor = of_source()           # (S, H, L, V)
    lengths: Tensor = of_source()          # (S,)


class CrossAttention(SequenceLayer):
    """A(q, K, V) with queries from the target, keys and values from the source; any score e(q, k).

    q, k and v are f(W c). With `projections` none, queries are the target's states, keys and values the source's.
    """

    def __init__(
        self, width: int, d_memory: int, *, heads: int, score: str = "scaled-dot", places: int = 128,
        projections: str = "auto", f: str = "none", head_width: int = 0, value_width: int = 0,
        dropout: float = 0.0, bias: str = "none",
    ):
        super().__init__()
        self.d_in = self.d_out = width
        self.heads, self.dropout, self.f = heads, dropout, f
        self.compares = compared(projections, score, f=f, head_width=head_width, heads=heads, d_query=width,
                                 d_memory=d_memory, states=False)
        own, value = head_widths(width, heads, head_width, value_width)
        gives = projections != "none" or value_width > 0       # values through a matrix, or the source's vectors
        self.sizes = [heads * own * self.compares.keys, heads * value * gives]
        self.q = Linear(width, heads * own, bias=bias != "none") if self.compares.queries else None
        self.kv = Linear(d_memory, sum(self.sizes), bias=bias != "none") if any(self.sizes) else None
        self.out = Linear(self.sizes[1] or d_memory, width, bias=bias == "all")
        self.score = None if score == "scaled-dot" else score_of(
            self.compares, heads, own, d_query=width, d_memory=d_memory, places=places)

    reads = "source"

    def parameter_roles(self) -> dict[str, Role]:
        keys_values = {} if self.kv is None else {"kv.weight": Role("matrix", parts_of(*self.sizes))}
        return {**keys_values, "out.weight": RESIDUAL}

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> SourceKeys:
        if memory is None:
            raise SettingError("cross-attention reads a source: start it with one")
        both = (None, None) if self.kv is None else bend(self.kv(memory.vectors), self.f).split(self.sizes, -1)
        keys, values = (part if size else None for part, size in zip(both, self.sizes, strict=True))
        return source_keys(self.compares, keys, values, memory, self.heads)

    def forward(
        self, x: Tensor, state: SourceKeys | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, SourceKeys]:
        if state is None:
            raise SettingError("cross-attention reads a source: start it with one")
        q = queries(self.compares, self.q, x, self.heads, self.f)                     # (B, H, T, K)
        y = read_source(q, state, score=self.score, dropout=self.dropout if self.training else 0.0, seen_by=self)
        return self.out(y.transpose(1, 2).flatten(2)), state


def score_of(compares: Compared, heads: int, own: int, *, d_query: int, d_memory: int, places: int) -> Score:
    """The score of projected queries of width `own`, or of states: whole, or in slices where it has no matrix."""
    name = compares.score
    if compares.queries:
        return make_score(name, heads, own, places=places)
    if name in OWN_MATRICES:
        return make_score(name, heads, d_query, d_key=d_memory, places=places)
    return make_score(name, heads, d_query // heads)


def queries(compares: Compared, project: nn.Linear | None, x: Tensor, heads: int, f: str) -> Tensor:
    """(B, H, T, K): f(W x), or x as it is."""
    return compares.states(x, heads) if project is None else bend(in_heads(project(x), heads).transpose(1, 2), f)


def source_keys(
    compares: Compared, keys: Tensor | None, values: Tensor | None, memory: Memory, heads: int
) -> SourceKeys:
    """Keys and values (S, L, H K) in heads; where they were not projected, the source's vectors. A score that reads no
    keys has none."""
    vectors = memory.vectors
    if keys is not None:
        keys = in_heads(keys, heads).transpose(1, 2)
    else:
        keys = compares.no_keys(vectors, heads) if compares.score == "location" else compares.states(vectors, heads)
    return SourceKeys(keys, in_heads(vectors if values is None else values, heads).transpose(1, 2), memory.lengths)


def read_source(q: Tensor, state: SourceKeys, **options: Any) -> Tensor:
    """Attend from queries (B, H, T, K) to their sources: (B, H, T, V). The beams of a source read it side by side."""
    keys, values = state.keys.to(q.dtype), state.values.to(q.dtype)
    plain = options.get("score") is None and not options.get("dropout") and not is_edited()
    y = attend_source(q, keys, values, state.lengths) if plain else None
    if y is not None and watching() is None:
        return y
    mask = (torch.arange(keys.shape[2], device=q.device) < state.lengths[:, None])[:, None, None]     # (S, 1, 1, L)
    beams = q.shape[0] // keys.shape[0]
    q, y = side_by_side(q, beams), None if y is None else side_by_side(y, beams)                      # (S, H, k T, K)
    return row_by_row(attend(q, keys, values, mask=mask, beams=beams, output=y, **options), beams)
