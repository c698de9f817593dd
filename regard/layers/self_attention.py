"""Causal self-attention: each position reads itself and every earlier one.

Vaswani et al. 2017, section 3.2; grouped queries: Ainslie et al. 2023; ALiBi: Press et al. 2021.
B batch · T time · D width · H heads · K head width · S positions that may be read
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from regard.contract import Memory, SequenceLayer, watching
from regard.errors import SettingError
from regard.kernels import attend_next, products
from regard.layers.attend import CAUSAL, Mask, attend
from regard.layers.cache import Followed, KeyValueCache, Readable, WindowCache
from regard.layers.in_blocks import attend_in_blocks
from regard.layers.norm import RMSNorm
from regard.layers.packed import Linear
from regard.layers.positions import Rotary, alibi_slopes, positions_of_chunk
from regard.layers.scores import make_score

Cache = KeyValueCache | WindowCache | Followed
RELATIVE = ("rotary", "alibi", "none")
PIECE = 256                                # positions of a prompt that are read at once, at least
NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class SelfAttention(SequenceLayer):
    """softmax(q k^T / sqrt K) v, in H heads, concatenated and mixed by one matrix.

    q, k and v are W c, or f(W c) with a nonlinearity `f`. With fewer `kv_heads` than heads, neighbouring heads read the
    same keys and values. With a `window`, a position reads only the last so many, itself included.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        kv_heads: int = 0,                     # 0: as many as heads
        positions: str = "rotary",             # rotary · alibi · none: how attention itself sees distance
        window: int = 0,                       # 0: everything before
        f: str = "none",                       # none · tanh · relu: q, k, v = f(W c)
        qk_norm: bool = False,                 # queries and keys of length one, times a learned gain
        score: str = "scaled-dot",             # how a query is matched with a key: see scores.py
        places: int = 128,                     # how many a location score knows
        softcap: float = 0.0,                  # scores stay between -softcap and softcap; 0: as they are
        dropout: float = 0.0,
        bias: bool = False,
    ):
        super().__init__()
        check_heads(width, heads)
        self.d_in = self.d_out = width
        self.heads, self.kv_heads, self.head_width = heads, kv_heads or heads, width // heads
        check_kv_heads(heads, self.kv_heads)
        self.window, self.f, self.softcap, self.dropout = window, f, softcap, dropout
        self.groups = heads // self.kv_heads
        self.qkv = Linear(width, (heads + 2 * self.kv_heads) * self.head_width, bias=bias)
        self.qkv.weight.parts = self.groups + 2                # type: ignore[attr-defined]  # matrices in one
        self.out = Linear(width, width, bias=bias)
        self.score = None if score == "scaled-dot" else make_score(score, heads, self.head_width, places=places)
        self.rotary = Rotary(self.head_width) if positions == "rotary" else None
        self.register_buffer("slopes", alibi_slopes(heads) if positions == "alibi" else None, persistent=False)
        self.q_norm = RMSNorm(self.head_width, eps=1e-6) if qk_norm else None
        self.k_norm = RMSNorm(self.head_width, eps=1e-6) if qk_norm else None

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
        room = torch.zeros(batch, slots, self.kv_heads, self.head_width, device=device, dtype=dtype)
        state = kind(room, room.clone(), torch.zeros(batch, dtype=torch.long, device=device))
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
        y = self.read(q.transpose(1, 2), readable, at, whole=state is None)           # (B, H, T, K)
        return self.out(y.transpose(1, 2).flatten(2)), state

    def read(self, q: Tensor, readable: Readable, at: Tensor, whole: bool) -> Tensor:
        """(B, H, T, K): what queries at these positions read. A whole text is read by a window in blocks; who watches
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
        """Whether scores are q · k / sqrt K, with positions and nothing else."""
        return not (self.window or self.softcap or self.score)

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
        """Each (B, T, H, K); turned by their positions, where positions are given and turn them."""
        if self.qkv.bias is None and products.can(x, self.qkv.weight):
            return self.queries_keys_values_apart(x, at)
        heads = self.qkv(x).unflatten(-1, (-1, self.head_width))                      # (B, T, H + 2 H', K)
        if self.f != "none":
            heads = NONLINEARITIES[self.f](heads)
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

    def queries_keys_values_apart(self, x: Tensor, at: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The same of a large model in training on a GPU: no gradients are put side by side."""
        sizes = [number * self.head_width for number in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (each.unflatten(-1, (-1, self.head_width)) for each in products.parts(x, self.qkv.weight, sizes))
        if self.f != "none":
            q, k, v = (NONLINEARITIES[self.f](each) for each in (q, k, v))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary is not None and at is not None:
            turns = self.rotary.turns(at, x.dtype)
            q, k = self.rotary(q, turns), self.rotary(k, turns)
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


def check_heads(width: int, heads: int) -> None:
    """Heads share the width evenly, or the nearest number that would is named."""
    if width % heads:
        raise SettingError(
            f"model.heads = {heads} does not divide model.width = {width}: try model.heads = {nearest(width, heads)}")


def check_kv_heads(heads: int, kv_heads: int) -> None:
    if heads % kv_heads:
        raise SettingError(f"model.kv_heads = {kv_heads} does not divide model.heads = {heads}: "
                           f"try model.kv_heads = {nearest(heads, kv_heads)}")


def nearest(whole: int, wanted: int) -> int:
    """The divisor of `whole` that is nearest to the one wanted."""
    return min((d for d in range(1, whole + 1) if whole % d == 0), key=lambda d: abs(d - wanted))
