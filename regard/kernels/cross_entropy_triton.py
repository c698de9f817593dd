"""A chunk of logits becomes its gradients, in Triton: a program takes one row, and reads it twice.

First for the largest logit and the sum of exponentials beside it, kept up together as the row goes by; then for the
gradients, which are written where the logits were. The second time a row is still in the cache.
Import this only where Triton is to be used: `kernels.path` knows.   n rows · V vocabulary
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 4096, 8


def softmax_gradient(logits: Tensor, targets: Tensor, shares: Tensor, smoothing: float, softcap: float) -> Tensor:
    losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    block = min(BLOCK, triton.next_power_of_2(logits.shape[1]))
    _rows[(len(logits),)](
        logits, targets, shares.float(), losses, logits.stride(0), logits.shape[1], smoothing, softcap,
        block, smoothing > 0, softcap > 0, num_warps=WARPS)
    return losses.sum()


@triton.jit
def _rows(
    logits, targets, shares, losses, stride, vocab, smoothing, softcap,
    BLOCK: tl.constexpr, SMOOTHED: tl.constexpr, CAPPED: tl.constexpr,
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
        z = tl.load(here + at, mask=at < vocab, other=-float("inf")).to(tl.float32)
        if CAPPED:
            z = tl.where(at < vocab, softcap * _tanh(z / softcap), -float("inf"))
        larger = tl.maximum(most, tl.max(z, 0))
        total = total * tl.exp(most - larger) + tl.sum(tl.exp(z - larger), 0)
        most = larger
        if SMOOTHED:
            added += tl.sum(tl.where(at < vocab, z, 0.0), 0)
    wanted = tl.load(here + target).to(tl.float32)
    if CAPPED:
        wanted = softcap * _tanh(wanted / softcap)
    total = most + tl.log(total)
    loss = total - (1 - smoothing) * wanted
    if SMOOTHED:
        loss -= smoothing * added / vocab
    tl.store(losses + row, share * loss)
    for first in range(0, vocab, BLOCK):
        at = first + tl.arange(0, BLOCK)
        z = tl.load(here + at, mask=at < vocab, other=0.0).to(tl.float32)
        slope = 1.0
        if CAPPED:
            t = _tanh(z / softcap)
            z = softcap * t
            slope = 1 - t * t
        g = tl.exp(z - total) - tl.where(at == target, 1 - smoothing, 0.0)
        if SMOOTHED:
            g -= smoothing / vocab
        tl.store(here + at, (share * g * slope).to(logits.dtype.element_ty), mask=at < vocab)


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1
