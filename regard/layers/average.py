"""The running mean: each position sees the mean of everything up to it, and no order. Dropout of whole words.

Iyyer et al. 2015 (deep averaging networks), read left to right.   B batch · T time · D width
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.contract import Memory, SequenceLayer, State
from regard.kernels.scan import state_after


@dataclass
class Sum(State):
    """The sum of all inputs so far: in float32 at least, as small numbers are added to large ones."""

    total: Tensor            # (B, D)
    count: Tensor            # (B,)


class RunningMean(SequenceLayer):
    """y[t] = (x[1] + ... + x[t]) / t.

    In training, `word_dropout` leaves that share of the words out of the mean, for everyone who would see them.
    """

    def __init__(self, width: int, *, word_dropout: float = 0.0):
        super().__init__()
        self.d_in = self.d_out = width
        self.word_dropout = word_dropout
        self.register_buffer("home", torch.empty(0), persistent=False)           # knows the device
        self.home: Tensor

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> Sum | None:
        return None if capacity is None else self.nothing(batch, self.home)

    def nothing(self, batch: int, like: Tensor) -> Sum:
        wide = torch.promote_types(like.dtype, torch.float32)
        return Sum(like.new_zeros(batch, self.d_in, dtype=wide), like.new_zeros(batch, dtype=torch.long))

    def forward(
        self, x: Tensor, state: Sum | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Sum | None]:
        before = self.nothing(x.shape[0], x) if state is None else state
        counted = torch.ones(x.shape[:2], dtype=torch.long, device=x.device)
        if self.training and self.word_dropout:
            counted = (torch.rand(x.shape[:2], device=x.device) >= self.word_dropout).long()
            x = x * counted[..., None]
        total = before.total[:, None] + x.to(before.total.dtype).cumsum(1)            # (B, T, D)
        count = before.count[:, None] + counted.cumsum(1)                             # (B, T)
        y = (total / count.clamp(min=1)[..., None]).to(x.dtype)
        if state is None:
            return y, None
        return y, Sum(state_after(before.total, total, lengths),
                      state_after(before.count[:, None], count[..., None], lengths)[:, 0])


class WordDropout(SequenceLayer):
    """y[t] = x[t]. In training a share of the words becomes zeros, the others are scaled up in their place."""

    def __init__(self, width: int, *, dropout: float = 0.0):
        super().__init__()
        self.d_in = self.d_out = width
        self.dropout = dropout

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> None:
        return None

    def forward(self, x: Tensor, state: None = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        if not self.training or not self.dropout:
            return x, None
        kept = torch.rand(x.shape[:2], device=x.device) >= self.dropout                # (B, T)
        return x * (kept / (1 - self.dropout))[..., None].to(x.dtype), None
