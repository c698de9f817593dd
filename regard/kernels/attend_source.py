"""Attention of one new token to a source, whose beams share it: a step of translation on a CPU.

    y = sum_l softmax_l(q · k_l / sqrt K) v_l            over the first so many positions of the source of each row

B rows, k beams for each of S sources · L source length · H heads · K head width
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.kernels.attend_next import WIDEST
from regard.kernels.cpu import native


def by_definition(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    beams = len(q) // len(keys)
    keys, values, lengths = (each.repeat_interleave(beams, 0) for each in (keys, values, lengths))
    scores = torch.einsum("bhk,bhlk->bhl", q, keys) / math.sqrt(q.shape[-1])
    hidden = torch.arange(keys.shape[2], device=q.device) >= lengths[:, None, None]
    alpha = torch.nan_to_num(scores.masked_fill(hidden, -math.inf).softmax(-1), nan=0.0)
    return torch.einsum("bhl,bhlk->bhk", alpha, values)


def attend_source(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor | None:
    """Attend from queries (B, H, T, K) to their sources. None where there is no kernel."""
    return natively(q[:, :, 0], keys, values, lengths)[:, :, None] if can(q, keys, values) else None


def can(q: Tensor, keys: Tensor, values: Tensor) -> bool:
    """True if the kernel takes this: one query (B, H, 1, K) a row, on a CPU, without a gradient."""
    return (q.shape[2] == 1 and q.shape[3] <= WIDEST and native.can(q) and keys.dtype == values.dtype == torch.float32
            and keys.shape == values.shape and keys.stride() == values.stride() and keys.stride(-1) == 1)


def natively(
    q: Tensor,                 # (B, H, K)
    keys: Tensor,              # (S, H, L, K)
    values: Tensor,            # (S, H, L, K)
    lengths: Tensor,           # (S,)
) -> Tensor:
    """Attend to each row's source, (B, H, K), by the kernel in C; zeros for an empty one."""
    q = native.in_rows(q)
    batch, heads, width = q.shape
    y = torch.empty(batch, heads, width)
    native.call("attend_source", q, q.stride(0), keys, values, *keys.stride()[:3], keys.shape[2], lengths.contiguous(),
                y, batch, heads, batch // len(keys), width)
    return y
