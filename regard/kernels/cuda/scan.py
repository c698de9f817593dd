"""The scan in Triton: each program takes a few channels of one row, and goes through time in tiles.

Memory is what a scan waits for: forward reads a and b and writes h, backward reads a, h and dh and writes da and db,
each once. Within a tile the positions are combined as pairs, (a, b) then (a', b') = (a a', a' b + b'), which is
associative, so that they need not wait for one another; from tile to tile only the last state is carried, while the
next tiles are on their way from memory. Where rows and channels are too few to fill the GPU, time is cut into segments
that run side by side: once for what each does to the state that enters it, and once for good.

Import this only where Triton is to be used: `kernels.path` knows.   B batch · T time · D channels · S segments
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class Knobs:
    """Sizes that decide the speed and not the result; bench/scan.py tries them."""

    block_t: int = 128           # positions of a tile
    run: int = 8                 # of which so many are gone through one after another, by one thread
    block_d: int = 32            # channels of a tile; 32 of float32 are one line of the cache
    warps: int = 4
    stages: int = 3              # tiles on their way at once, as far as there is room
    segments: int = 0            # into which time is cut; 0: chosen


# The best of a sweep on an H200 (bench/scan.py), long and short.
FORWARD = Knobs(block_t=64, run=4, block_d=32, warps=4)
BACKWARD = Knobs(block_t=128, run=4, block_d=32, warps=8)
EXACT = Knobs(block_t=32, run=4, block_d=32, warps=4, stages=1)       # for float64: to be right, on little room
ENOUGH = 128                     # programs that keep a GPU busy: about one for each of its processors
LEAST_ROOM = 99 * 1024           # bytes of shared memory that any GPU of these days gives a program


def forward(a: Tensor, b: Tensor, h0: Tensor | None, knobs: Knobs = FORWARD) -> Tensor:
    """h (B, T, D) from a and b of any strides; h0 (B, D) or None."""
    (batch, time, width), dtype = b.shape, torch.promote_types(a.dtype, b.dtype)
    h = torch.empty(b.shape, dtype=dtype, device=b.device)
    knobs = EXACT if dtype == torch.float64 else knobs

    def launch(entering: Tensor | None, summary: _Summary | None, segments: int, length: int) -> None:
        _forward[(_cdiv(width, knobs.block_d), batch * segments)](
            a, b, h if entering is None else entering.contiguous(), h,
            *((h, h) if summary is None else (summary.total, summary.product)),
            time, width, length, segments, *a.stride(), *b.stride(),
            HAS_H0=entering is not None, SUMMARY=summary is not None, KEPT=_kept(h),
            **_settings(knobs, h.element_size(), h.device, 2))

    _in_segments(launch, b, h0, knobs)
    return h


def backward(
    a: Tensor, h: Tensor, h0: Tensor | None, dh: Tensor, knobs: Knobs = BACKWARD
) -> tuple[Tensor, Tensor, Tensor]:
    """da, db and dh0 (B, D) from the gradient dh of h."""
    knobs = EXACT if h.dtype == torch.float64 else knobs
    da = torch.empty(h.shape, dtype=a.dtype, device=h.device)
    db, dh0 = torch.empty_like(h), h.new_empty(h.shape[0], h.shape[2])
    batch, time, width = h.shape

    def launch(entering: Tensor | None, summary: _Summary | None, segments: int, length: int) -> None:
        _backward[(_cdiv(width, knobs.block_d), batch * segments)](
            a, h, h if h0 is None else h0.contiguous(), dh, h if entering is None else entering.contiguous(),
            da, db, dh0, *((h, h) if summary is None else (summary.total, summary.product)),
            time, width, length, segments, *a.stride(), *dh.stride(),
            HAS_H0=h0 is not None, ENTERING=entering is not None, SUMMARY=summary is not None, KEPT=_kept(h),
            **_settings(knobs, h.element_size(), h.device, 3))

    _in_segments(launch, h, None, knobs, backwards=True)
    return da, db, dh0


def _in_segments(
    launch: Callable[[Tensor | None, _Summary | None, int, int], None], like: Tensor, state: Tensor | None,
    knobs: Knobs, *, backwards: bool = False,
) -> None:
    """Scan with this state entering the first segment: where there are several, they are summarised before."""
    segments, length = _segments(like.shape, knobs)
    here = not like.is_cuda or like.device.index == torch.cuda.current_device()
    with nullcontext() if here else torch.cuda.device_of(like):
        if segments > 1:
            summary = _Summary(like, segments)
            launch(None, summary, segments, length)
            state = summary.entering(state, backwards=backwards)
        launch(state, None, segments, length)


class _Summary:
    """Each segment's effect on the state that enters it: it leaves as product * state + total."""

    def __init__(self, like: Tensor, segments: int):
        batch, _, width = like.shape
        kept = torch.float64 if like.dtype == torch.float64 else torch.float32
        self.total = torch.empty(batch, segments, width, dtype=kept, device=like.device)
        self.product = torch.empty_like(self.total)

    def entering(self, state: Tensor | None, *, backwards: bool = False) -> Tensor:
        """(B, S, D): the state that enters each segment, which is a scan over the segments."""
        total, product = (x.flip(1) if backwards else x for x in (self.total, self.product))
        first = torch.zeros_like(total[:, 0]) if state is None else state.to(total.dtype)
        others = forward(product[:, :-1], total[:, :-1], first, Knobs(segments=1))
        states = torch.cat((first[:, None], others), 1)
        return states.flip(1) if backwards else states


@lru_cache(1024)
def _segments(shape: torch.Size, knobs: Knobs) -> tuple[int, int]:
    """The number of segments, and their length: a whole number of tiles."""
    batch, time, width = shape
    programs = batch * _cdiv(width, knobs.block_d)
    tiles = _cdiv(time, knobs.block_t)
    wanted = knobs.segments or (_cdiv(ENOUGH, programs) if programs <= ENOUGH // 2 and tiles >= 8 else 1)
    length = _cdiv(tiles, min(wanted, tiles)) * knobs.block_t
    return _cdiv(time, length), length


def _cdiv(a: int, b: int) -> int:
    """Rounded up. Triton's own, called from the host, takes longer than a short scan's kernel is given."""
    return -(-a // b)


def _kept(x: Tensor) -> Any:
    """The type in which sums are kept."""
    return tl.float64 if x.dtype == torch.float64 else tl.float32


@cache
def _settings(knobs: Knobs, size: int, device: torch.device, loads: int) -> dict[str, int]:
    """The knobs as the kernels want them, with no more stages than shared memory has room for. Asked at every launch:
    a short scan takes a GPU less time than the host takes to ask for it."""
    tile = loads * knobs.block_t * knobs.block_d * size
    room = LEAST_ROOM
    if device.type == "cuda":
        room = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", LEAST_ROOM)
    scratch = 2 * knobs.block_t * knobs.block_d * size                 # two tiles that warps hand to one another
    stages = max(1, min(knobs.stages, 1 + (room - 8192 - scratch) // tile))      # each stage but one holds a tile
    return dict(RUN=knobs.run, RUNS=knobs.block_t // knobs.run, BLOCK_D=knobs.block_d, STAGES=stages,
                num_warps=knobs.warps)


@triton.jit
def _then(a, b, a_next, b_next):
    """One step after another is one step: a' (a h + b) + b' = (a a') h + (a' b + b')."""
    return a * a_next, a_next * b + b_next


@triton.jit
def _last(x, SIZE: tl.constexpr):
    """The last of (SIZE, ...) along the first axis."""
    at = tl.arange(0, SIZE)[:, None] if len(x.shape) == 2 else tl.arange(0, SIZE)[:, None, None]
    return tl.sum(tl.where(at == SIZE - 1, x, 0.0), 0)


@triton.jit
def _scan_tile(a, b, carry, RUN: tl.constexpr, RUNS: tl.constexpr, BLOCK_D: tl.constexpr):
    """The states of a tile (RUN, RUNS, BLOCK_D), the one after it, and the product of all a in it.

    Position `run * RUN + step` stands at [step, run]: laid out so, the steps of a run stay within a thread, where each
    costs two operations; only the ends of the runs have to meet across threads.
    """
    p, s = tl.associative_scan((a, b), 0, _then)
    p_end, s_end = tl.associative_scan((_last(p, RUN), _last(s, RUN)), 0, _then)               # (RUNS, BLOCK_D)
    after = p_end * carry[None, :] + s_end                                                   # the state after each run
    run = tl.arange(0, RUNS)[:, None]
    before = tl.gather(after, tl.broadcast_to(tl.maximum(run - 1, 0), (RUNS, BLOCK_D)), 0)
    before = tl.where(run == 0, carry[None, :], before)
    return p * before[None, :, :] + s, _last(after, RUNS), _last(p_end, RUNS)


@triton.jit
def _forward(
    a, b, h0, h, total, product,                       # h0, total and product are (B, S, D)
    T, D, length, segments,
    a_row, a_time, a_channel, b_row, b_time, b_channel,
    HAS_H0: tl.constexpr, SUMMARY: tl.constexpr, KEPT: tl.constexpr,
    RUN: tl.constexpr, RUNS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    segment = tl.program_id(1).to(tl.int64)            # counted over all rows
    row, begin = segment // segments, segment % segments * length
    end = tl.minimum(begin + length, T)
    within = tl.arange(0, RUNS)[None, :, None] * RUN + tl.arange(0, RUN)[:, None, None]
    a_at, b_at, h_at = a + row * a_row + d * a_channel, b + row * b_row + d * b_channel, h + row * T * D + d
    carry = tl.zeros((BLOCK_D,), dtype=KEPT)
    kept = tl.full((BLOCK_D,), 1.0, dtype=KEPT)        # the product of all a so far
    if HAS_H0:
        carry += tl.load(h0 + segment * D + d, mask=d < D, other=0.0).to(KEPT)
    for start in tl.range(begin, end, RUN * RUNS, num_stages=STAGES):
        t = start + within
        inside = (t < end) & (d < D)[None, None, :]    # beyond the end the state stays: a = 1, b = 0
        a_t = tl.load(a_at[None, None, :] + t * a_time, mask=inside, other=1.0).to(KEPT)
        b_t = tl.load(b_at[None, None, :] + t * b_time, mask=inside, other=0.0).to(KEPT)
        h_t, carry, product_t = _scan_tile(a_t, b_t, carry, RUN, RUNS, BLOCK_D)
        if SUMMARY:
            kept *= product_t
        else:
            tl.store(h_at[None, None, :] + t * D, h_t.to(h.dtype.element_ty), mask=inside)
    if SUMMARY:
        tl.store(total + segment * D + d, carry, mask=d < D)
        tl.store(product + segment * D + d, kept, mask=d < D)


@triton.jit
def _backward(
    a, h, h0, dh, entering, da, db, dh0, total, product,     # entering, total and product are (B, S, D), h0 is (B, D)
    T, D, length, segments,
    a_row, a_time, a_channel, dh_row, dh_time, dh_channel,
    HAS_H0: tl.constexpr, ENTERING: tl.constexpr, SUMMARY: tl.constexpr, KEPT: tl.constexpr,
    RUN: tl.constexpr, RUNS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):
    """g[t] = dh[t] + a[t+1] * g[t+1], from the end: the tiles and the positions within them in the opposite order."""
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    segment = tl.program_id(1).to(tl.int64)
    row, begin = segment // segments, segment % segments * length
    end = tl.minimum(begin + length, T)
    within = tl.arange(0, RUNS)[None, :, None] * RUN + tl.arange(0, RUN)[:, None, None]
    a_at, dh_at, whole = a + row * a_row + d * a_channel, dh + row * dh_row + d * dh_channel, row * T * D + d
    carry = tl.zeros((BLOCK_D,), dtype=KEPT)
    kept = tl.full((BLOCK_D,), 1.0, dtype=KEPT)
    first = tl.zeros((BLOCK_D,), dtype=KEPT)
    if HAS_H0:
        first += tl.load(h0 + row * D + d, mask=d < D, other=0.0).to(KEPT)
    if ENTERING:
        carry += tl.load(entering + segment * D + d, mask=d < D, other=0.0).to(KEPT)
    for gone in tl.range(0, end - begin, RUN * RUNS, num_stages=STAGES):
        t = end - 1 - gone - within
        inside = (t >= begin) & (d < D)[None, None, :]
        a_next = tl.load(a_at[None, None, :] + (t + 1) * a_time, mask=inside & (t + 1 < T), other=1.0).to(KEPT)
        dh_t = tl.load(dh_at[None, None, :] + t * dh_time, mask=inside, other=0.0).to(KEPT)
        g, carry, product_t = _scan_tile(a_next, dh_t, carry, RUN, RUNS, BLOCK_D)
        if SUMMARY:
            kept *= product_t
        else:
            before = tl.load(h + whole[None, None, :] + (t - 1) * D, mask=inside & (t > 0), other=0.0).to(KEPT)
            before = tl.where(t == 0, first[None, None, :], before)
            tl.store(db + whole[None, None, :] + t * D, g.to(db.dtype.element_ty), mask=inside)
            tl.store(da + whole[None, None, :] + t * D, (g * before).to(da.dtype.element_ty), mask=inside)
    if SUMMARY:
        tl.store(total + segment * D + d, carry, mask=d < D)
        tl.store(product + segment * D + d, kept, mask=d < D)
    elif begin == 0:
        a_first = tl.load(a_at, mask=d < D, other=0.0).to(KEPT)
        tl.store(dh0 + row * D + d, (a_first * carry).to(dh0.dtype.element_ty), mask=d < D)
