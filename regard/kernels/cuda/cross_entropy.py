"""A chunk of logits becomes its gradients, in Triton: a program takes one row, and reads it once.

What is written where the logits were is exp(z - c), for a c near the largest logit; what it has to be divided by is
known when the row has gone by, and is left to the scale of the row. For c the largest of the first block will do: if
another is so much larger that exponentials could overflow, c becomes that one, and what was written is written again.
With smoothing every gradient needs the sum, so that such rows are read twice; the second time a row is still in the
cache. Import this only where Triton is to be used: `kernels.path` knows.   n rows · V vocabulary
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 2048, 4
MARGIN = tl.constexpr(40.0)        # e^40 times a vocabulary, times a weight, is far from the end of float32


def softmax_gradient(
    logits: Tensor, targets: Tensor, shares: Tensor, h: Tensor, smoothing: float, softcap: float
) -> tuple[Tensor, Tensor, Tensor]:
    losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    scales, scaled = torch.empty_like(losses), torch.empty_like(h)
    block = min(BLOCK, triton.next_power_of_2(logits.shape[1]))
    width = h.shape[1], triton.next_power_of_2(h.shape[1])
    each = logits, targets, shares.float(), h, losses, scales, scaled, logits.stride(0), logits.shape[1]
    if smoothing:
        _twice[(len(logits),)](*each, smoothing, softcap, *width, block, softcap > 0, num_warps=WARPS)
    else:
        _once[(len(logits),)](*each, softcap, *width, block, softcap > 0, num_warps=WARPS)
    return losses.sum(), scales, scaled


@triton.jit
def _once(
    logits, targets, shares, h, losses, scales, scaled, stride, vocab, softcap,
    width: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CAPPED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    here = logits + row * stride
    target = tl.load(targets + row)
    share = tl.load(shares + row)
    wanted = tl.load(here + target).to(tl.float32)
    c = -float("inf")
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, vocab, BLOCK):
        at = first + tl.arange(0, BLOCK)
        z = tl.load(here + at, mask=at < vocab, other=-float("inf")).to(tl.float32)
        z, slope = _capped(z, softcap, CAPPED)
        z = tl.where(at < vocab, z, -float("inf"))
        most = tl.max(z, 0)
        if most > c + MARGIN:
            less = tl.exp(c - most)                            # 0 in the first block, where there is nothing before
            for before in range(0, first, BLOCK):
                written = here + before + tl.arange(0, BLOCK)
                tl.store(written, (tl.load(written).to(tl.float32) * less).to(logits.dtype.element_ty))
            sums *= less
            c = most
        e = tl.exp(z - c)
        sums += e
        tl.store(here + at, (e * slope).to(logits.dtype.element_ty), mask=at < vocab)
    total = tl.sum(sums, 0)
    wanted, slope = _capped(wanted, softcap, CAPPED)
    tl.store(here + target, ((tl.exp(wanted - c) - total) * slope).to(logits.dtype.element_ty))
    tl.store(losses + row, share * (c + tl.log(total) - wanted))
    tl.store(scales + row, share / total)
    _scale(h, scaled, row, share / total, width, WIDTH)


@triton.jit
def _twice(
    logits, targets, shares, h, losses, scales, scaled, stride, vocab, smoothing, softcap,
    width: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CAPPED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    here = logits + row * stride
    target = tl.load(targets + row)
    share = tl.load(shares + row)
    most = -float("inf")
    total = 0.0
    added = 0.0
    for first in range(0, vocab, BLOCK):
        at = first + tl.arange(0, BLOCK)
        z = tl.load(here + at, mask=at < vocab, other=0.0).to(tl.float32)
        z, _ = _capped(z, softcap, CAPPED)
        added += tl.sum(z, 0)
        z = tl.where(at < vocab, z, -float("inf"))
        larger = tl.maximum(most, tl.max(z, 0))
        total = total * tl.exp(most - larger) + tl.sum(tl.exp(z - larger), 0)
        most = larger
    wanted, _ = _capped(tl.load(here + target).to(tl.float32), softcap, CAPPED)
    total = most + tl.log(total)
    tl.store(losses + row, share * (total - (1 - smoothing) * wanted - smoothing * added / vocab))
    tl.store(scales + row, share)
    _scale(h, scaled, row, share, width, WIDTH)
    for first in range(0, vocab, BLOCK):
        at = first + tl.arange(0, BLOCK)
        z, slope = _capped(tl.load(here + at, mask=at < vocab, other=0.0).to(tl.float32), softcap, CAPPED)
        g = tl.exp(z - total) - tl.where(at == target, 1 - smoothing, 0.0) - smoothing / vocab
        tl.store(here + at, (g * slope).to(logits.dtype.element_ty), mask=at < vocab)


@triton.jit
def _scale(h, scaled, row, scale, width: tl.constexpr, WIDTH: tl.constexpr):
    at = tl.arange(0, WIDTH)
    x = tl.load(h + row * width + at, mask=at < width, other=0.0).to(tl.float32)
    tl.store(scaled + row * width + at, (x * scale).to(scaled.dtype.element_ty), mask=at < width)


@triton.jit
def _capped(z, softcap, CAPPED: tl.constexpr):
    """c tanh(z / c) and its slope; without a cap z itself."""
    slope = 1.0
    if CAPPED:
        t = 2 * tl.sigmoid(2 * z / softcap) - 1
        z = softcap * t
        slope = 1 - t * t
    return z, slope
