"""Causal self-attention: each position reads itself and every earlier one.

Vaswani et al. 2017, section 3.2; grouped queries: Ainslie et al. 2023; ALiBi: Press et al. 2021.
B batch · T time · D width · H heads · K, V widths of a head · S positions that may be read
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.contract import Memory, SequenceLayer, watching
from regard.kernels import attend_next, products
from regard.layers.attend import CAUSAL, Mask, attend
from regard.layers.cache import Followed, KeyValueCache, Readable, WindowCache
from regard.layers.in_blocks import attend_in_blocks
from regard.layers.norm import RMSNorm
from regard.layers.packed import Linear
from regard.layers.positions import Rotary, alibi_slopes, positions_of_chunk
from regard.layers.projections import bend, check_kv_heads, head_widths, in_heads, parts_of
from regard.layers.scores import Location, make_score

Cache = KeyValueCache | WindowCache | Followed
RELATIVE = ("rotary", "alibi", "none")
PIECE = 256                                # positions of a prompt that are read at once, at least


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
        window: int = 0,                       # 0: everything before
        f: str = "none",                       # none · tanh · relu · gelu: q, k, v = f(W c)
        head_width: int = 0,                   # of a head's queries and keys; 0: width / heads
        value_width: int = 0,                  # of a head's values; 0: as its keys
        qk_norm: bool = False,                 # queries and keys of length one, times a learned gain
        score: str = "scaled-dot",             # how a query is matched with a key: see scores.py
        places: int = 128,                     # how many a location score knows
        unread_keys: bool = False,             # keys for a location score too, which reads none: as earlier runs had
        softcap: float = 0.0,                  # scores stay between -softcap and softcap; 0: as they are
        dropout: float = 0.0,
        bias: bool = False,
    ):
        super().__init__()
        self.d_in = self.d_out = width
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.head_width, self.value_width = head_widths(width, heads, head_width, value_width)
        check_kv_heads(heads, self.kv_heads)
        self.window, self.f, self.softcap, self.dropout = window, f, softcap, dropout
        self.groups = heads // self.kv_heads
        self.key_width = 0 if score == "location" and not unread_keys else self.head_width
        self.sizes = [heads * self.head_width, self.kv_heads * self.key_width, self.kv_heads * self.value_width]
        self.even = self.head_width == self.key_width == self.value_width
        self.qkv = Linear(width, sum(self.sizes), bias=bias)
        self.qkv.weight.parts = parts_of(*self.sizes)          # type: ignore[attr-defined]  # matrices in one
        self.out = Linear(heads * self.value_width, width, bias=bias)
        self.score = None if score == "scaled-dot" else make_score(score, heads, self.head_width, places=places)
        self.rotary = Rotary(self.head_width) if positions == "rotary" else None
        self.register_buffer("slopes", alibi_slopes(heads) if positions == "alibi" else None, persistent=False)
        self.q_norm = RMSNorm(self.head_width, eps=1e-6) if qk_norm else None
        self.k_norm = RMSNorm(self.head_width, eps=1e-6) if qk_norm and self.key_width else None

    slopes: Tensor | None

    def start(
        self, batch: int, capacity: int | None = None, memory: Memory | None = None
    ) -> KeyValueCache | WindowCache | None:
        if capacity is None:
            return None
        weight = self.qkv.weight
        device = weight.device
        dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else weight.dtype
        kind, slots = (WindowCache, self.window) if 0 < self.window < capacity else (KeyValueCache, capacity + 1)
        keys, values = (torch.zeros(batch, slots, self.kv_heads, each, device=device, dtype=dtype)
                        for each in (self.key_width, self.value_width))
        state = kind(keys, values, torch.zeros(batch, dtype=torch.long, device=device))
        return replace(state, follows=self.unbent) if isinstance(state, KeyValueCache) else state

    def forward(
        self, x: Tensor, state: Cache | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Cache | None]:
        length = x.shape[1]
        if state is not None and length > 2 * self.piece(x):
            return self.piece_by_piece(x, state, lengths)
        if isinstance(state, KeyValueCache | Followed) and length == 1 and lengths is None and self.is_plain(state):
            q, k, v = (each[:, 0] for each in self.queries_keys_values(x))
            y, state = state.next(q, k, v, self.slopes, None if self.rotary is None else self.rotary.rates(x.device))
            if watching() is not None:
                self.show_last(x, state)
            return self.out(y.flatten(1)[:, None]), state
        at = torch.arange(length, device=x.device) if state is None else positions_of_chunk(state.count, length)
        q, k, v = self.queries_keys_values(x, at)                                     # each (B, T, H, K)
        if state is None:
            readable = Readable(k, v, at)
        else:
            state, readable = state.write(k, v, lengths)
            if isinstance(self.score, Location) and isinstance(state, KeyValueCache):
                readable = readable.first(state.capacity)    # it has a number for each place, and the bin is none
        y = self.read(q.transpose(1, 2), readable, at, whole=state is None)           # (B, H, T, V)
        return self.out(y.transpose(1, 2).flatten(2)), state

    def read(self, q: Tensor, readable: Readable, at: Tensor, whole: bool) -> Tensor:
        """(B, H, T, V): what queries at these positions read. A whole text is read by a window in blocks; who watches
        is shown T x T weights all the same, and is obeyed if they are edited."""
        k, v = (x.to(q.dtype).transpose(1, 2) for x in (readable.keys, readable.values))
        dropout, recorder = self.dropout if self.training else 0.0, watching()
        blocks = whole and 0 < 2 * self.window < q.shape[2] and self.score is None
        y = None
        if blocks and (recorder is None or recorder.edit is None):
            y = attend_in_blocks(q, k, v, self.window, slopes=self.slopes, softcap=self.softcap, dropout=dropout)
        if y is not None and recorder is None:
            return y
        mask: Tensor | Mask | None
        mask, bias = self.who_reads_whom(at, readable.at, whole)
        if readable.even and q.shape[2] == 1 and not self.window and recorder is None:
            mask = None                              # the last of all reads all: a kernel is quicker without
        in_full = attend(q, k, v, mask=mask, bias=bias, softcap=self.softcap, score=self.score, dropout=dropout,
                         seen_by=self, queries=at, keys=readable.at)
        return in_full if y is None else y

    def piece_by_piece(
        self, x: Tensor, state: Cache | None, lengths: Tensor | None
    ) -> tuple[Tensor, Cache | None]:
        """A long prompt: all at once, who may read whom would be kept for every two of its positions."""
        pieces, size = [], self.piece(x)
        for number, piece in enumerate(x.split(size, 1)):
            own = None if lengths is None else (lengths - number * size).clamp(0, piece.shape[1])
            y, state = self(piece, state, own)
            pieces.append(y)
        return torch.cat(pieces, 1), state

    def piece(self, x: Tensor) -> int:
        """Positions of a prompt that are read at once. A GPU wants many: each piece costs it launches."""
        return max(self.window, PIECE if x.device.type == "cpu" else 8 * PIECE)

    @property
    def unbent(self) -> bool:
        """Whether scores are q · k / sqrt K, with positions and nothing else, and values as wide as keys."""
        return self.even and not (self.window or self.softcap or self.score)

    def is_plain(self, state: KeyValueCache | Followed) -> bool:
        """Whether one new token may be read by a kernel of its own: nothing bends the scores, and nobody edits them."""
        recorder = watching()
        edited = recorder is not None and recorder.edit is not None
        dropped = self.training and self.dropout
        return self.unbent and not edited and not dropped and attend_next.can(state.keys)

    def show_last(self, x: Tensor, state: KeyValueCache | Followed) -> None:
        """Tell a watcher what the token just read took of what, in the open; its output has come from the kernel."""
        state = state.whole() if isinstance(state, Followed) else state
        at = positions_of_chunk(state.count - 1, 1)
        q, _, _ = self.queries_keys_values(x, at)
        everything = Readable(state.keys, state.values, torch.arange(state.keys.shape[1], device=x.device))
        self.read(q.transpose(1, 2), everything, at, whole=False)

    def queries_keys_values(self, x: Tensor, at: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, H, K) and, of H' heads, K and V; q and k turned by their positions, where these are given and turn."""
        if not self.even:
            return self.each_by_itself(self.qkv(x).split(self.sizes, -1), at)
        if self.qkv.bias is None and products.can(x, self.qkv.weight):
            return self.each_by_itself(products.parts(x, self.qkv.weight, self.sizes), at)
        heads = bend(self.qkv(x).unflatten(-1, (-1, self.head_width)), self.f)        # (B, T, H + 2 H', K)
        both = [self.heads, self.kv_heads]
        if self.q_norm is None and self.rotary is None:
            q, k, v = heads.split([*both, self.kv_heads], 2)    # the gradient of a split is a single copy
            return q, k, v
        qk, v = heads.split([sum(both), self.kv_heads], 2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = qk.split(both, 2)
            qk = torch.cat((self.q_norm(q), self.k_norm(k)), 2)
        if self.rotary is not None and at is not None:
            qk = self.rotary(qk, self.rotary.turns(at, x.dtype))
        q, k = qk.split(both, 2)
        return q, k, v

    def each_by_itself(self, parts: Sequence[Tensor], at: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The same of heads that differ in width; and of a large model in training on a GPU, where no gradients are put
        side by side then."""
        q, k, v = (bend(in_heads(part, heads), self.f)
                   for part, heads in zip(parts, (self.heads, self.kv_heads, self.kv_heads), strict=True))
        if self.q_norm is not None:
            q = self.q_norm(q)
        if self.k_norm is not None:
            k = self.k_norm(k)
        if self.rotary is not None and at is not None:
            turns = self.rotary.turns(at, q.dtype)
            q = self.rotary(q, turns)
            k = self.rotary(k, turns) if self.key_width else k
        return q, k, v

    def who_reads_whom(self, queries: Tensor, keys: Tensor, whole: bool) -> tuple[Tensor | Mask, Tensor | None]:
        """The mask, and what distance takes off the scores, from absolute positions (.., T) and (.., S)."""
        near_enough = not self.window or (whole and queries.shape[-1] <= self.window)
        if whole and near_enough and self.slopes is None:
            return CAUSAL, None                              # pads stand at the right: no real token sees one
        now, then = queries[..., :, None], keys[..., None, :]
        mask = (then <= now) & (then >= 0)            # (B, T, S) or (T, S); differences would take eight times the room
        if self.window:
            mask &= then > now - self.window
        bias = None
        if self.slopes is not None:
            bias = -self.slopes[:, None, None] * (now - then).unsqueeze(-3).to(self.slopes.dtype)
        return mask.unsqueeze(-3), bias                                               # (B, 1 or H, T, S)
