"""A few vectors through one matrix, in Triton: a program takes some rows of W, and all of x.

Sums are in float32; what leaves is in the type of x.
Import this only where Triton is to be used: `kernels.path` knows.   R rows · D width in · E width out
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 1024, 4         # of D at once
PROGRAMS = 128                 # at least, so that a large GPU is busy
CODES = {"": 0, "gelu": 1, "gelu-tanh": 2, "relu": 3, "relu2": 4}


def matvec(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    wide, deep = weight.shape
    y = torch.empty(*x.shape[:-1], wide, dtype=x.dtype, device=x.device)
    at_once = 1
    while at_once < 8 and wide // (2 * at_once) >= PROGRAMS:
        at_once *= 2
    _matvec[(triton.cdiv(wide, at_once),)](
        x, weight, x if bias is None else bias, y, wide, deep, x.numel() // deep, bias is not None, CODES[activation],
        at_once, min(BLOCK, triton.next_power_of_2(deep)), num_warps=WARPS)
    return y


@triton.jit
def _matvec(
    x, weight, bias, y, wide, deep, rows, BIASED: tl.constexpr, CODE: tl.constexpr, OUT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    e = tl.program_id(0) * OUT + tl.arange(0, OUT)
    for row in range(rows):
        total = tl.zeros([OUT], dtype=tl.float32)
        for first in range(0, deep, BLOCK):
            d = first + tl.arange(0, BLOCK)
            w = tl.load(weight + e[:, None] * deep + d[None, :], mask=(e < wide)[:, None] & (d < deep)[None, :],
                        other=0.0).to(tl.float32)
            each = tl.load(x + row * deep + d, mask=d < deep, other=0.0).to(tl.float32)
            total += tl.sum(w * each[None, :], 1)
        if BIASED:
            total += tl.load(bias + e, mask=e < wide, other=0.0).to(tl.float32)
        if CODE > 0:
            total = _activated(total.to(y.dtype.element_ty).to(tl.float32), CODE)
        tl.store(y + row * wide + e, total.to(y.dtype.element_ty), mask=e < wide)


@triton.jit
def _activated(z, CODE: tl.constexpr):
    if CODE == 1:
        z = 0.5 * z * (1 + tl.erf(z * 0.7071067811865476))
    if CODE == 2:
        z = z * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))
    if CODE > 2:
        z = tl.maximum(z, 0.0)
    if CODE == 4:
        z = z * z
    return z
