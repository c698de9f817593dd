"""One query a row against its cache, in Triton: a program takes a head and a part of the slots.

Scores, weights and weighted values go by in blocks, with the largest score and the sum of exponentials kept up on the
way. The first part also reads the new key and value, and puts them into the cache. Where rows and heads are too few to
keep a GPU busy, the slots are parted, and a second kernel joins the parts: each has its sum, taken relative to its own
largest score.
Import this only where Triton is to be used: `kernels.path` knows.   B batch · H heads · K head width · C slots
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 64, 4
PROGRAMS = 128                 # enough to keep a large GPU busy
SHORTEST = 64                  # slots that a program of its own is worth


def attend_next(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, count: Tensor, slopes: Tensor | None,
    rates: Tensor | None,
) -> tuple[Tensor, Tensor]:
    batch, heads, width = q.shape
    slots, key_heads = keys.shape[1:3]
    parts = max(1, min(-(-PROGRAMS // (batch * heads)), -(-slots // SHORTEST)))
    padded = triton.next_power_of_2(width)
    y, after = torch.empty(batch, heads, width, dtype=q.dtype, device=q.device), torch.empty_like(count)
    sums = y if parts == 1 else torch.empty(batch, heads, parts, padded + 2, dtype=torch.float32, device=q.device)
    q, k, v = (each if each.stride(-1) == 1 else each.contiguous() for each in (q, k, v))
    _part[(batch, heads, parts)](
        q, k, v, keys, values, count, q if slopes is None else slopes, q if rates is None else rates,
        y, sums, after,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *keys.stride()[:3], *values.stride()[:3],
        heads, heads // key_heads, width, -(-slots // parts), width**-0.5,
        parts, padded, BLOCK, slopes is not None, rates is not None, num_warps=WARPS)
    if parts > 1:
        _join[(batch, heads)](sums, y, heads, width, parts, triton.next_power_of_2(parts), padded, num_warps=1)
    return y, after


@triton.jit
def _part(
    q, k, v, keys, values, count, slopes, rates, y, sums, after,
    q_row, q_head, k_row, k_head, v_row, v_head, keys_row, keys_slot, keys_head, values_row, values_slot, values_head,
    heads, groups, width, share, scale,
    PARTS: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, SLOPED: tl.constexpr,
    TURNED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    part = tl.program_id(2)
    own = head // groups
    n = tl.load(count + row)
    at = tl.arange(0, PADDED)
    inside = at < width
    q += row * q_row + head * q_head
    query = tl.load(q + at, mask=inside, other=0.0).to(tl.float32)
    cos = tl.full([PADDED], 1.0, tl.float32)
    sin = tl.zeros([PADDED], dtype=tl.float32)
    if TURNED:                                    # the other channel of a pair is one away: a below, b above
        angle = n.to(tl.float32) * tl.load(rates + at // 2, mask=inside, other=0.0)
        cos = tl.cos(angle)
        sin = tl.where(at % 2 == 0, -tl.sin(angle), tl.sin(angle))
        other = tl.load(q + (at ^ 1), mask=inside, other=0.0).to(tl.float32)
        query = (query * cos + other * sin).to(q.dtype.element_ty).to(tl.float32)
    query *= scale
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + head).to(tl.float32)
    keys += row * keys_row + own * keys_head
    values += row * values_row + own * values_head
    most = -float("inf")
    total = 0.0
    held = tl.zeros([PADDED], dtype=tl.float32)
    if part == 0:
        k += row * k_row + own * k_head
        new = tl.load(k + at, mask=inside, other=0.0)
        if TURNED:
            other = tl.load(k + (at ^ 1), mask=inside, other=0.0).to(tl.float32)
            new = (new.to(tl.float32) * cos + other * sin).to(k.dtype.element_ty)
        new_key = new.to(keys.dtype.element_ty)
        if head == 0:
            tl.store(after + row, n + 1)
        new_value = tl.load(v + row * v_row + own * v_head + at, mask=inside, other=0.0).to(values.dtype.element_ty)
        tl.store(keys + n * keys_slot + at, new_key, mask=inside)
        tl.store(values + n * values_slot + at, new_value, mask=inside)
        most = tl.sum(query * new_key.to(tl.float32), 0)
        total = 1.0
        held = new_value.to(tl.float32)
    first = part * share
    last = tl.minimum(first + share, n)
    for begin in range(first, last, BLOCK):
        slot = begin + tl.arange(0, BLOCK)
        read = (slot < last)[:, None] & inside[None, :]
        key = tl.load(keys + slot[:, None] * keys_slot + at[None, :], mask=read, other=0.0).to(tl.float32)
        score = tl.sum(key * query[None, :], 1)
        if SLOPED:
            score -= slope * (n - slot).to(tl.float32)
        score = tl.where(slot < last, score, -float("inf"))
        larger = tl.maximum(most, tl.max(score, 0))
        weight = tl.exp(score - larger)
        kept = tl.exp(most - larger)
        value = tl.load(values + slot[:, None] * values_slot + at[None, :], mask=read, other=0.0).to(tl.float32)
        total = total * kept + tl.sum(weight, 0)
        held = held * kept + tl.sum(weight[:, None] * value, 0)
        most = larger
    if PARTS == 1:
        here = y + (row * heads + head) * width + at
        tl.store(here, (held / total).to(y.dtype.element_ty), mask=inside)
    else:
        here = sums + ((row * heads + head) * PARTS + part) * (PADDED + 2)
        tl.store(here + at, held)
        tl.store(here + PADDED, most)
        tl.store(here + PADDED + 1, total)


@triton.jit
def _join(sums, y, heads, width, parts, PARTS: tl.constexpr, PADDED: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    at = tl.arange(0, PADDED)
    part = tl.arange(0, PARTS)
    here = sums + (row * heads + head) * parts * (PADDED + 2) + part * (PADDED + 2)
    there = part < parts
    most = tl.load(here + PADDED, mask=there, other=-float("inf"))
    total = tl.load(here + PADDED + 1, mask=there, other=0.0)
    weight = tl.exp(most - tl.max(most, 0))
    held = tl.load(here[:, None] + at[None, :], mask=there[:, None], other=0.0)
    out = tl.sum(weight[:, None] * held, 0) / tl.sum(weight * total, 0)
    tl.store(y + (row * heads + head) * width + at, out.to(y.dtype.element_ty), mask=at < width)
