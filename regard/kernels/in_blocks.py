"""Attention to the last W positions, in blocks of W: a block of queries reads its own block of keys and the one before.

What stands farther back no query of the block may read. So T positions take T x 2W products and not T x T, in memory
too. The definition is `attend` of `layers/attend.py` with a mask of all positions.
B batch · H heads · T time · K head width · W window · N blocks
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor | None], Tensor]         # of q, k, v, mask and bias


def attend_in_blocks(
    attend: Attend, q: Tensor, k: Tensor, v: Tensor, window: int, slopes: Tensor | None = None
) -> Tensor:
    """(B, H, T, K): each query reads itself and the W - 1 before it, by `attend`; with `slopes`, less the farther."""
    batch, time = q.shape[0], q.shape[2]
    blocks = (time + window - 1) // window                 # ONNX would round -(-time // window) the other way
    rest = blocks * window - time                                                     # pads, at the right
    own = side_by_side(F.pad(q, (0, 0, 0, rest)), window)                             # (B N, H, W, K)
    keys, values = (with_the_one_before(F.pad(x, (0, 0, window, rest)), window) for x in (k, v))
    mask, bias = who_reads_whom(window, blocks, slopes, q.device)
    mask = mask.expand(batch, -1, -1, -1, -1).flatten(0, 1)                           # (B N, 1, W, 2W)
    y = attend(own, keys, values, mask, bias)                                         # (B N, H, W, K)
    return y.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :time]


def side_by_side(x: Tensor, window: int) -> Tensor:
    """(B, H, N W, K) to (B N, H, W, K): blocks are rows of the batch."""
    return x.unflatten(2, (-1, window)).transpose(1, 2).flatten(0, 1)


def with_the_one_before(x: Tensor, window: int) -> Tensor:
    """(B, H, (N + 1) W, K) to (B N, H, 2W, K): each block but the first behind the one before it."""
    blocks = x.unflatten(2, (-1, window))                                             # (B, H, N + 1, W, K)
    return torch.cat((blocks[:, :, :-1], blocks[:, :, 1:]), 3).transpose(1, 2).flatten(0, 1)


def who_reads_whom(
    window: int, blocks: int, slopes: Tensor | None, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """The mask (N, 1, W, 2W) and what distance takes off the scores (H, W, 2W): alike in all blocks, but that nothing
    stands before the first."""
    at = torch.arange(2 * window, device=device)
    distance = window + at[:window, None] - at                                        # (W, 2W)
    mask = ((distance >= 0) & (distance < window)).repeat(blocks, 1, 1, 1)
    mask[:1, ..., :window] = False
    return mask, None if slopes is None else -slopes[:, None, None] * distance.to(slopes.dtype)
