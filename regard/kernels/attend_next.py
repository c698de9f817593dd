"""Attention of one new token to all before it, with its key and value put into the cache: a step of generation.

    y = sum_i softmax_i(q · k_i / sqrt K - slope (n - i)) v_i          over the slots 0 .. n, the new one being n

With `rates` query and key are turned first, each pair of neighbouring channels by n times its rate (rotary positions).
On a GPU one Triton kernel reads the slots written and no more; attention in general (turn, write, mask, attend) takes
two dozen, which wait for one another, and reads every slot. On a CPU one function in C does it, which also reads a
cache whose rows lie anywhere: see `Followed` of `layers/cache.py`.
B batch · H heads · H' heads of keys · K head width · C slots
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import rotary
from regard.kernels.cpu import native

WIDEST = 256                   # of a head, that the kernel takes


def by_definition(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, count: Tensor, slopes: Tensor | None = None,
    rates: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    if rates is not None:
        q, k = turned(q, count, rates), turned(k, count, rates)
    rows = torch.arange(len(q), device=q.device)
    keys[rows, count], values[rows, count] = k.to(keys.dtype), v.to(values.dtype)
    groups = q.shape[1] // keys.shape[2]
    wide = torch.promote_types(q.dtype, torch.float32)
    held, read = (each.to(wide).repeat_interleave(groups, 2) for each in (keys, values))          # (B, C, H, K)
    distance = count[:, None] - torch.arange(keys.shape[1], device=q.device)                      # (B, C)
    scores = torch.einsum("bhk,bchk->bhc", q.to(wide), held) / math.sqrt(q.shape[-1])
    if slopes is not None:
        scores = scores - slopes[:, None].to(wide) * distance[:, None]
    alpha = scores.masked_fill(distance[:, None] < 0, -math.inf).softmax(-1)
    return torch.einsum("bhc,bchk->bhk", alpha, read).to(q.dtype), count + 1


def turned(x: Tensor, count: Tensor, rates: Tensor) -> Tensor:
    """(a, b) becomes (a cos - b sin, a sin + b cos) for each pair of neighbouring channels of x (B, H, K)."""
    wide = torch.promote_types(x.dtype, torch.float32)
    angles = (count[:, None].to(rates.dtype) * rates).to(wide)[:, None]                           # (B, 1, K/2)
    return rotary.by_definition(x.to(wide), angles).to(x.dtype)


def attend_next(
    q: Tensor,                 # (B, H, K)
    k: Tensor,                 # (B, H', K)
    v: Tensor,                 # (B, H', K)
    keys: Tensor,              # (B, C, H', K), written into
    values: Tensor,            # (B, C, H', K), written into
    count: Tensor,             # (B,): where the new one goes
    slopes: Tensor | None = None,          # (H,) of ALiBi
    rates: Tensor | None = None,           # (K/2,) of rotary positions
    rows: Tensor | None = None,            # (B, C): the row of `keys` and `values` that holds each slot; None: its own
) -> tuple[Tensor, Tensor] | None:
    """Attend: (B, H, K), and the count after it. None where there is no kernel: the layer computes its equation."""
    if not can(keys):
        return None
    if not keys.is_cuda:
        return natively(q, k, v, keys, values, count, slopes, rates, rows), count + 1
    from regard.kernels.cuda.attend_next import attend_next as in_triton

    return in_triton(q, k, v, keys, values, count, slopes, rates)


def row_table(rows: Tensor, keys: Tensor) -> Tensor | None:
    """(B, C): where each slot of these rows lies, for a kernel that looks it up. None where entries have to move."""
    return rows[:, None].repeat(1, keys.shape[1]) if native.can(keys) else None


def can(keys: Tensor) -> bool:
    """True if a kernel takes a cache like this one: Triton on a GPU or C on a CPU, without a gradient."""
    if keys.shape[-1] > WIDEST or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if not keys.is_cuda:
        return native.can(keys) and keys.is_contiguous()
    return keys.dtype != torch.float64 and kernels.path(keys) == "triton"


def natively(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, count: Tensor, slopes: Tensor | None = None,
    rates: Tensor | None = None, rows: Tensor | None = None,
) -> Tensor:
    """Attend by the kernel in C; a new key and value go into the row of their own."""
    q, k, v = map(native.in_rows, (q, k, v))
    batch, heads, width = q.shape
    slots, key_heads = keys.shape[1:3]
    y = torch.empty(batch, heads, width)
    native.call("attend_next", q, q.stride(0), k, k.stride(0), v, v.stride(0), keys, values, *keys.stride()[:2], slots,
                rows, count.contiguous(), slopes, rates, y, batch, key_heads, heads // key_heads, width)
    return y
