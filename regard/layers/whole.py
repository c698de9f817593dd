"""Whole layers: they read a sequence in both directions, so that there is nothing to carry across a cut.

An encoder is made of these. They fit wherever a SequenceLayer is read whole, in one call: in a Block, in a Stack.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.contract import Memory, SequenceLayer


class WholeLayer(SequenceLayer):
    """A layer that must see the end before it can say anything of the beginning. It refuses to be cut."""

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> None:
        assert capacity is None, f"{type(self).__name__} reads in both directions: it cannot be read in pieces"


def real_positions(lengths: Tensor, time: int) -> Tensor:
    """(B, T), True where a token is real."""
    return torch.arange(time, device=lengths.device) < lengths[:, None]


def mean_of_real(x: Tensor, lengths: Tensor | None) -> Tensor:
    """The mean (B, D) of each row's real vectors (B, T, D); zeros for a row that has none."""
    if lengths is None:
        return x.mean(1)
    real = real_positions(lengths, x.shape[1])[..., None]
    return torch.where(real, x, 0.0).sum(1) / lengths.clamp(min=1)[:, None]
