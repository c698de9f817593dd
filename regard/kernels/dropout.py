"""Dropout: each number is left out with one chance, and the others are scaled so that the mean stays.

Srivastava et al. 2014, section 4. `torch.nn.functional.dropout` defines it. On a CPU that draws for one number at a
time, 7 to 10 ns each, up to a quarter of a step of a small model. So there 64 random bits are drawn at a time and cut
into four whole numbers of 16 bits, one for each number of x: about a quarter of the time.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEAST = 5_000                  # numbers; for fewer, a call more costs more than quicker draws gain
WAYS = 2**16                   # that 16 bits can fall: a share is rounded to a multiple of 1 / WAYS


class Dropout(nn.Dropout):
    """`nn.Dropout`, and quicker on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.p, self.training)


def drop(x: Tensor, share: float, training: bool = True) -> Tensor:
    """x with this share of its numbers left out and the others scaled; in eval mode, or with share 0, x itself."""
    if not training or share == 0.0:
        return x
    if not quickly(x, share):
        return F.dropout(x, share)
    return x * scales(x, round(share * WAYS))


def quickly(x: Tensor, share: float) -> bool:
    """True if 16 bits a number are faster, and enough: torch samples a share that they round to none or all."""
    return (x.device.type == "cpu" and x.numel() >= LEAST and 0 < round(share * WAYS) < WAYS
            and not torch.compiler.is_compiling())


def scales(x: Tensor, dropped: int) -> Tensor:
    """As x: 0 in `dropped` of WAYS ways, else one over the very chance of being kept, so that the mean is 1."""
    n = x.numel()
    bits = torch.empty(-(-n // 4), dtype=torch.int64).random_(-2**63, None)      # every bit of every number is drawn
    kept = bits.view(torch.int16)[:n].ge_(dropped - WAYS // 2)                   # in place: 1 or 0, as int16
    return kept.view(x.shape).to(x.dtype).mul_(WAYS / (WAYS - dropped))
