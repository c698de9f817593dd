"""A short causal convolution, channel by channel: each position mixes itself with the few before it.

    y[t] = bias + sum over j of taps[j] * x[t - K + 1 + j],        j = 0 .. K-1

It gives a recurrence the few words before each word, which it would have to keep in its state otherwise.
B batch · T time · D channels · K taps
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import Memory, SequenceLayer, State
from regard.errors import SettingError
from regard.kernels.convolve import convolve, convolve_seen


@dataclass
class Tail(State):
    """The last K - 1 inputs of each row; zeros where there were none."""

    inputs: Tensor           # (B, K - 1, D)


class CausalConvolution(SequenceLayer):
    """One filter of K taps for each channel, over the position itself and the K - 1 before it."""

    def __init__(self, width: int, *, taps: int = 4):
        super().__init__()
        if taps < 1:
            raise SettingError(f"model.conv = {taps}: a convolution reads at least its own position; choose 1 or more")
        self.d_in = self.d_out = width
        self.taps = taps
        self.weight = nn.Parameter(torch.empty(width, 1, taps).uniform_(-1, 1) / math.sqrt(taps))     # as torch has it
        self.bias = nn.Parameter(torch.zeros(width))

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> Tail | None:
        return None if capacity is None else Tail(self.nothing(self.weight, batch))

    def nothing(self, like: Tensor, batch: int) -> Tensor:
        return like.new_zeros(batch, self.taps - 1, self.d_in)

    def forward(
        self, x: Tensor, state: Tail | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tail | None]:
        weight, bias = self.weight[:, 0].to(x.dtype), self.bias.to(x.dtype)
        if state is None:
            return convolve(x, weight, bias), None
        seen = torch.cat((state.inputs.to(x.dtype), x), 1)                            # (B, K - 1 + T, D)
        tail = tail_after(seen, lengths, self.taps - 1).to(state.inputs.dtype)
        return convolve_seen(seen, weight, bias), Tail(tail)


def tail_after(seen: Tensor, lengths: Tensor | None, count: int) -> Tensor:
    """The last `count` real inputs of each row; `seen` begins with those from before, which a row of none keeps."""
    if lengths is None:
        return seen[:, seen.shape[1] - count:].contiguous()          # lets go of the rest, and has the strides it had
    at = lengths[:, None] + torch.arange(count, device=seen.device)                   # (B, K - 1)
    return seen.gather(1, at[..., None].expand(-1, -1, seen.shape[-1]))
