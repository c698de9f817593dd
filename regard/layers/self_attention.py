"""Causal self-attention: each position reads itself and every earlier one.

Vaswani et al. 2017, section 3.2.   B batch · T time · D width · H heads · K head width · C capacity
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import Memory, SequenceLayer, State
from regard.errors import SettingError
from regard.layers.attend import CAUSAL, Mask, attend
from regard.layers.positions import Rotary, advance, positions_of_chunk


@dataclass
class KeyValueCache(State):
    """The keys and values of everything read so far. Slot j holds position j; the last slot is a bin for pads."""

    keys: Tensor             # (B, C + 1, H, K)
    values: Tensor           # (B, C + 1, H, K)
    count: Tensor            # (B,) tokens read

    @property
    def capacity(self) -> int:
        return self.keys.shape[1] - 1

    def write(self, keys: Tensor, values: Tensor, lengths: Tensor | None) -> tuple[KeyValueCache, Tensor]:
        """Add a chunk (B, T, H, K) behind each row's past; also give the mask (B, 1, T, C + 1) of who reads what."""
        batch, length = keys.shape[:2]
        at = positions_of_chunk(self.count, length)                                   # (B, T)
        slots = at
        if lengths is not None:
            real = torch.arange(length, device=at.device) < lengths[:, None]
            slots = torch.where(real, at, self.capacity)
        where = (torch.arange(batch, device=at.device)[:, None], slots)
        # A gradient may flow through the cache; only without one may it be written in place.
        put = torch.Tensor.index_put if torch.is_grad_enabled() else torch.Tensor.index_put_
        cache = KeyValueCache(
            keys=put(self.keys, where, keys.to(self.keys.dtype)),
            values=put(self.values, where, values.to(self.values.dtype)),
            count=advance(self.count, length, lengths),
        )
        readable = torch.arange(self.capacity + 1, device=at.device) <= at[..., None]  # (B, T, C + 1)
        return cache, readable[:, None]


class SelfAttention(SequenceLayer):
    """softmax(q k^T / sqrt K) v, in H heads, concatenated and mixed by one matrix."""

    def __init__(self, width: int, *, heads: int, rotary: bool = True, dropout: float = 0.0, bias: bool = False):
        super().__init__()
        check_heads(width, heads)
        self.d_in = self.d_out = width
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.qkv.weight.parts = 3                              # type: ignore[attr-defined]  # three matrices in one
        self.out = nn.Linear(width, width, bias=bias)
        self.rotary = Rotary(width // heads) if rotary else None

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> KeyValueCache | None:
        if capacity is None:
            return None
        weight = self.qkv.weight
        device = weight.device
        dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else weight.dtype
        room = torch.zeros(batch, capacity + 1, self.heads, self.d_in // self.heads, device=device, dtype=dtype)
        return KeyValueCache(room, room.clone(), torch.zeros(batch, dtype=torch.long, device=device))

    def forward(
        self, x: Tensor, state: KeyValueCache | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, KeyValueCache | None]:
        length = x.shape[1]
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))                          # (B, T, 3, H, K)
        qk, v = qkv[:, :, :2], qkv[:, :, 2]
        if self.rotary is not None:
            at = torch.arange(length, device=x.device) if state is None else positions_of_chunk(state.count, length)
            qk = self.rotary(qk, self.rotary.turns(at, x.dtype))
        q, k = qk.unbind(2)                                                           # each (B, T, H, K)
        mask: Tensor | Mask = CAUSAL                                  # pads stand at the right: no real token sees one
        if state is not None:
            state, mask = state.write(k, v, lengths)
            k, v = state.keys.to(q.dtype), state.values.to(q.dtype)
        y = attend(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),                  # (B, H, T, K)
            mask=mask, dropout=self.dropout if self.training else 0.0, seen_by=self,
        )
        return self.out(y.transpose(1, 2).flatten(2)), state


def check_heads(width: int, heads: int) -> None:
    """Heads share the width evenly, or the nearest number that would is named."""
    if width % heads:
        near = min((d for d in range(1, width + 1) if width % d == 0), key=lambda d: abs(d - heads))
        raise SettingError(f"model.heads = {heads} does not divide model.width = {width}: try model.heads = {near}")
