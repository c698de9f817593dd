"""Adding and normalising in Triton: a program takes one row, in float32.

Import this only where Triton is to be used: `kernels.path` knows.   R rows · D width
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def add_norm(x: Tensor, y: Tensor | None, gain: Tensor, eps: float, centred: bool) -> tuple[Tensor, Tensor]:
    width = x.shape[-1]
    x = x.contiguous()
    y = None if y is None else y.contiguous()
    added = x if y is None else torch.empty_like(x)
    normed = torch.empty_like(x)
    padded = triton.next_power_of_2(width)
    _add_norm[(x.numel() // width,)](
        x, x if y is None else y, gain, added, normed, width, eps, y is not None, centred, padded,
        num_warps=max(1, min(8, padded // 256)))
    return added, normed


@triton.jit
def _add_norm(x, y, gain, added, normed, width, eps, ADDS: tl.constexpr, CENTRED: tl.constexpr, PADDED: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, PADDED)
    inside = at < width
    s = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    if ADDS:
        s += tl.load(y + row + at, mask=inside, other=0.0).to(tl.float32)
        kept = s.to(added.dtype.element_ty)
        tl.store(added + row + at, kept, mask=inside)
        s = kept.to(tl.float32)
    if CENTRED:
        s = tl.where(inside, s - tl.sum(s, 0) / width, 0.0)
    s = s / tl.sqrt(tl.sum(s * s, 0) / width + eps) * tl.load(gain + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed + row + at, s.to(normed.dtype.element_ty), mask=inside)
