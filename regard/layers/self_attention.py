"""Causal self-attention: each position reads itself and every earlier one.

Vaswani et al. 2017, section 3.2; grouped queries: Ainslie et al. 2023; ALiBi: Press et al. 2021.
B batch · T time · D width · H heads · K, V widths of a head · S positions that may be read
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.contract import Memory, Role, SequenceLayer
from regard.kernels.attention import Mask, prompt_piece
from regard.kernels.exported import at_most
from regard.kernels.in_blocks import attend_in_blocks
from regard.kernels.linear import Linear
from regard.layers.attend import attend, by_kernel, is_edited
from regard.layers.cache import Cache, KeyValueCache, Readable, make_cache, read_in_pieces
from regard.layers.norms import EPS, RMSNorm
from regard.layers.positions import Rotary, make_slopes, positions_of_chunk, who_reads_whom
from regard.layers.projections import check_kv_heads, head_widths, parts_of, project_heads
from regard.layers.roles import RESIDUAL
from regard.layers.scores import Location, make_score
from regard.watching import watching


class SelfAttention(SequenceLayer):
    """softmax(q k^T / sqrt K) v, in H heads, concatenated and mixed by one matrix.

    q, k and v are W c, or f(W c) with a nonlinearity `f`; a location score reads no keys, and there are none. With
    fewer `kv_heads` than heads, neighbouring heads read the same keys and values. With a `window`, a position reads
    only the last so many, itself included.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        kv_heads: int = 0,                     # 0: as many as heads
        positions: str = "rotary",             # rotary · alibi · none: how attention itself sees distance
        rotary_base: float = 10000.0,          # the slower pairs of channels turn, the larger it is
        rotary_share: float = 1.0,             # of a head's channels that turn
        window: int = 0,                       # 0: everything before
        f: str = "none",                       # none · tanh · relu · gelu: q, k, v = f(W c)
        head_width: int = 0,                   # of a head's queries and keys; 0: width / heads
        value_width: int = 0,                  # of a head's values; 0: as its keys
        qk_norm: bool = False,                 # queries and keys of length one, times a learned gain
        eps: float = EPS,                      # of these norms
        score: str = "scaled-dot",             # how a query is matched with a key: see scores.py
        places: int = 128,                     # how many a location score knows
        unread_keys: bool = False,             # keys for a location score too, which reads none: as earlier runs had
        softcap: float = 0.0,                  # scores stay between -softcap and softcap; 0: as they are
        dropout: float = 0.0,
        bias: str = "none",                    # none · qkv · all: W c + b, in these linear layers
    ):
        super().__init__()
        self.d_in = self.d_out = width
        self.heads = self.maps = heads
        self.kv_heads = kv_heads or heads
        self.head_width, self.value_width = head_widths(width, heads, head_width, value_width)
        check_kv_heads(heads, self.kv_heads)
        self.window, self.f, self.softcap, self.dropout = window, f, softcap, dropout
        self.key_width = 0 if score == "location" and not unread_keys else self.head_width
        self.sizes = [heads * self.head_width, self.kv_heads * self.key_width, self.kv_heads * self.value_width]
        self.qkv = Linear(width, sum(self.sizes), bias=bias != "none")
        self.out = Linear(heads * self.value_width, width, bias=bias == "all")
        self.score = None if score == "scaled-dot" else make_score(score, heads, self.head_width, places=places)
        turns = positions == "rotary"
        self.rotary = Rotary(self.head_width, base=rotary_base, share=rotary_share) if turns else None
        self.register_buffer("slopes", make_slopes(positions, heads), persistent=False)
        self.q_norm = RMSNorm(self.head_width, eps=eps) if qk_norm else None
        self.k_norm = RMSNorm(self.head_width, eps=eps) if qk_norm and self.key_width else None

    slopes: Tensor | None
    reads = "self"

    def parameter_roles(self) -> dict[str, Role]:
        return {"qkv.weight": Role("matrix", parts_of(*self.sizes)), "out.weight": RESIDUAL}

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> Cache | None:
        if capacity is None:
            return None
        return make_cache(self.qkv.weight, batch, capacity, self.window, heads=self.kv_heads,
                          widths=(self.key_width, self.value_width), follows=self.is_plain)

    def forward(
        self, x: Tensor, state: Cache | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Cache | None]:
        if state is not None and x.shape[1] > 2 * (piece := max(self.window, prompt_piece(x))):
            return read_in_pieces(self, x, state, lengths, piece)
        q, k, v = self.queries_keys_values(x)                                         # each (B, T, H, K)
        y = None
        if state is not None and x.shape[1] == 1 and lengths is None and self.is_plain and not self.is_changed():
            y, state = state.next(q, k, v, self.slopes, None if self.rotary is None else self.rotary.rates(x.device))
        if y is None or watching() is not None:
            y, state = self.read(q, k, v, state, lengths, y)                          # (B, H, T, V)
        return self.out(y.transpose(1, 2).flatten(2)), state

    def read(
        self, q: Tensor, k: Tensor, v: Tensor, state: Cache | None, lengths: Tensor | None, y: Tensor | None
    ) -> tuple[Tensor, Cache | None]:
        """Attend from queries (B, T, H, K) to all up to them: (B, H, T, V), and the state after it. `y` is that output
        where a kernel has read one token: its key and value are written, and a watcher is shown its weights."""
        whole, length = state is None, q.shape[1]
        if state is None:
            positions = torch.arange(length, device=q.device)
        else:
            positions = positions_of_chunk(state.count if y is None else state.count - 1, length)
        q, k = self.turned(q, k, positions)
        if state is None:
            readable = Readable(k, v, positions)
        elif y is None:
            state, readable = state.write(k, v, lengths)
            if isinstance(self.score, Location) and isinstance(state, KeyValueCache):
                readable = readable.first(state.capacity)    # it has a number for each place, and the bin is none
        else:
            readable = state.everything()
        q, k, v = (x.to(q.dtype).transpose(1, 2) for x in (q, readable.keys, readable.values))
        options: dict[str, Any] = dict(softcap=self.softcap, dropout=self.dropout if self.training else 0.0)
        blocks = self.window and not at_most(q.shape[2], 2 * self.window)
        if whole and blocks and self.score is None and not is_edited():
            y = attend_in_blocks(partial(by_kernel, **options), q, k, v, self.window, self.slopes)
            if watching() is None:
                return y, state
        mask, bias = self.who_reads_whom(positions, readable.at, whole)
        if readable.even and q.shape[2] == 1 and not self.window and watching() is None:
            mask = None                              # the last of all reads all: a kernel is quicker without
        return attend(q, k, v, mask=mask, bias=bias, score=self.score, output=y, seen_by=self, queries=positions,
                      keys=readable.at, **options), state

    def who_reads_whom(self, queries: Tensor, keys: Tensor, whole: bool) -> tuple[Tensor | Mask | None, Tensor | None]:
        return who_reads_whom(queries, keys, self.window, self.slopes, whole=whole)

    @property
    def is_plain(self) -> bool:
        """True if scores are q · k / sqrt K, with positions and nothing else, and values are as wide as keys."""
        return self.key_width == self.value_width and not (self.window or self.softcap or self.score)

    def is_changed(self) -> bool:
        """True while weights are changed: dropped in training, or edited by a watcher."""
        return bool(self.training and self.dropout) or is_edited()

    def queries_keys_values(self, x: Tensor, at: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, H, K) and, of H' heads, K and V; q and k turned by their positions, where these are given and turn."""
        q, k, v = project_heads(x, self.qkv, self.sizes, (self.heads, self.kv_heads, self.kv_heads), self.f)
        q, k = q if self.q_norm is None else self.q_norm(q), k if self.k_norm is None else self.k_norm(k)
        return *(self.turned(q, k, at) if at is not None else (q, k)), v

    def turned(self, q: Tensor, k: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        return (q, k) if self.rotary is None else self.rotary.turn(q, k, at)
