"""State spaces of heads in Triton: every chunk of Q steps is a few products of matrices, forward and backward.

Three kernels. `_pass_states` goes through the chunks one after another and keeps the state before each; backwards it
passes the gradients of the states on in the same way. Given the states, all chunks are independent: `_read` gives the
outputs of one head in one chunk, `_differentiate` the gradients of one chunk, head by head, so that those of b and c,
which the heads of a group share, are added up in registers. With l the sum of log_decay from the chunk's first step on:

    y[t] = sum over s <= t of exp(l[t] - l[s]) (c[t] . b[s]) x[s]  +  exp(l[t]) h c[t]
    h'   = exp(l[Q]) h + sum over s of exp(l[Q] - l[s]) x[s] b[s]^T

What log_decay[r] changes is all that is carried across r: from the chunk's steps before r to those from r on, out of
the state, and into the next. Nothing is divided, so any decay will do. Where the heads of a group are dealt out to
several programs, each writes sums of its own, added up afterwards: no atomics, so the same numbers every time.
B batch · T time · H heads · P head width · G groups · N states · M chunks
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 512               # wanted of the backward pass, a few for each processor of a GPU
ROOM = 200_000               # bytes of shared memory that the tiles of two heads need
LEAST = 16                   # of each side of a product


@triton.jit
def _pass_states(
    x_at, fade_at, b_at, first_at, starts_at, last_at, time, heads, groups, width, states,
    HAS_FIRST: tl.constexpr, BACKWARD: tl.constexpr, Q: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """h' = exp(l[Q]) h + x'^T b, x' being x times exp(l[Q] - l), or backwards, from the last chunk on, exp(l)."""
    head, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    q, p, n = tl.arange(0, Q), tl.arange(0, P), tl.arange(0, N)
    group = head // (heads // groups)
    inside = (p < width)[:, None] & (n < states)[None, :]
    of_state = p[:, None] * states + n[None, :]
    first = (row * heads + head) * width * states
    h = tl.zeros((P, N), tl.float32)
    if HAS_FIRST:
        h = tl.load(first_at + first + of_state, mask=inside, other=0.0).to(tl.float32)
    chunks = tl.cdiv(time, Q)
    for turn in range(0, chunks):
        chunk = turn
        if BACKWARD:
            chunk = chunks - 1 - turn
        here = ((row * chunks + chunk) * heads + head) * width * states
        tl.store(starts_at + here + of_state, h.to(starts_at.dtype.element_ty), mask=inside)
        t = chunk * Q + q
        real = t < time
        fades = tl.load(fade_at + (row * time + t) * heads + head, mask=real, other=0.0).to(tl.float32)
        channels = ((row * time + t) * heads + head)[:, None] * width + p[None, :]
        codes = ((row * time + t) * groups + group)[:, None] * states + n[None, :]
        x = tl.load(x_at + channels, mask=real[:, None] & (p < width)[None, :], other=0.0)
        b = tl.load(b_at + codes, mask=real[:, None] & (n < states)[None, :], other=0.0)
        so_far = tl.cumsum(fades, 0)
        total = tl.sum(fades, 0)
        left = total - so_far
        if BACKWARD:
            left = so_far
        x = (x.to(tl.float32) * tl.exp(left)[:, None]).to(b.dtype)
        h = tl.exp(total) * h + tl.dot(tl.trans(x), b, input_precision=PRECISION)
    tl.store(last_at + first + of_state, h, mask=inside)


@triton.jit
def _read(
    x_at, fade_at, b_at, c_at, starts_at, y_at, time, heads, groups, width, states,
    Q: tl.constexpr, P: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
):
    chunk, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    chunks = tl.num_programs(0)
    q, p, n = tl.arange(0, Q), tl.arange(0, P), tl.arange(0, N)
    group = head // (heads // groups)
    t = chunk * Q + q
    real = t < time
    fades = tl.load(fade_at + (row * time + t) * heads + head, mask=real, other=0.0).to(tl.float32)
    channels = ((row * time + t) * heads + head)[:, None] * width + p[None, :]
    codes = ((row * time + t) * groups + group)[:, None] * states + n[None, :]
    filled = real[:, None] & (p < width)[None, :]
    coded = real[:, None] & (n < states)[None, :]
    x = tl.load(x_at + channels, mask=filled, other=0.0)
    b = tl.load(b_at + codes, mask=coded, other=0.0)
    c = tl.load(c_at + codes, mask=coded, other=0.0)
    here = ((row * chunks + chunk) * heads + head) * width * states
    h = tl.load(starts_at + here + p[:, None] * states + n[None, :],
                mask=(p < width)[:, None] & (n < states)[None, :], other=0.0)
    so_far = tl.cumsum(fades, 0)
    earlier = q[:, None] >= q[None, :]                                                 # (t, s)
    left = tl.exp(tl.where(earlier, so_far[:, None] - so_far[None, :], float("-inf")))
    kernel = tl.dot(c, tl.trans(b), input_precision=PRECISION) * left
    y = tl.exp(so_far)[:, None] * tl.dot(c, tl.trans(h), input_precision=PRECISION)
    y += tl.dot(kernel.to(x.dtype), x, input_precision=PRECISION)
    tl.store(y_at + channels, y.to(y_at.dtype.element_ty), mask=filled)


@triton.jit
def _differentiate(
    dy_at, x_at, fade_at, b_at, c_at, starts_at, dstarts_at, dx_at, dfade_at, db_at, dc_at,
    batch, time, heads, groups, width, states, per_program,
    Q: tl.constexpr, P: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
):
    chunk, share, chunks = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    row, group = (tl.program_id(2) // groups).to(tl.int64), tl.program_id(2) % groups
    q, p, n = tl.arange(0, Q), tl.arange(0, P), tl.arange(0, N)
    t = chunk * Q + q
    real = t < time
    filled = real[:, None] & (p < width)[None, :]
    coded = real[:, None] & (n < states)[None, :]
    kept = (p < width)[:, None] & (n < states)[None, :]
    codes = ((row * time + t) * groups + group)[:, None] * states + n[None, :]
    b = tl.load(b_at + codes, mask=coded, other=0.0)
    c = tl.load(c_at + codes, mask=coded, other=0.0)
    match = tl.dot(c, tl.trans(b), input_precision=PRECISION)                          # (t, s)
    earlier, strictly = q[:, None] >= q[None, :], q[:, None] > q[None, :]
    dmatch = tl.zeros((Q, Q), tl.float32)
    db = tl.zeros((Q, N), tl.float32)
    dc = tl.zeros((Q, N), tl.float32)
    begin = group * (heads // groups) + share * per_program
    for head in range(begin, begin + per_program):
        fades_at = (row * time + t) * heads + head
        fades = tl.load(fade_at + fades_at, mask=real, other=0.0).to(tl.float32)
        channels = fades_at[:, None] * width + p[None, :]
        x = tl.load(x_at + channels, mask=filled, other=0.0)
        dy = tl.load(dy_at + channels, mask=filled, other=0.0)
        here = ((row * chunks + chunk) * heads + head) * width * states + p[:, None] * states + n[None, :]
        h = tl.load(starts_at + here, mask=kept, other=0.0)
        dh = tl.load(dstarts_at + here, mask=kept, other=0.0)                          # of the state after the chunk
        so_far = tl.cumsum(fades, 0)
        total = tl.sum(fades, 0)
        since, to_end = tl.exp(so_far), tl.exp(total - so_far)
        left = tl.exp(tl.where(earlier, so_far[:, None] - so_far[None, :], float("-inf")))

        # Within the chunk.
        wanted = tl.dot(dy, tl.trans(x), input_precision=PRECISION) * left
        dmatch += wanted
        crossing = tl.where(strictly, wanted * match, 0.0)
        dx = tl.dot(tl.trans((match * left).to(dy.dtype)), dy, input_precision=PRECISION)

        # Into the state after it, and out of the state before it.
        to_state = to_end[:, None] * tl.dot(b, tl.trans(dh), input_precision=PRECISION)
        from_state = since[:, None] * tl.dot(c, tl.trans(h), input_precision=PRECISION)
        dx += to_state
        entering = tl.sum(x.to(tl.float32) * to_state, 1)
        leaving = tl.sum(dy.to(tl.float32) * from_state, 1)
        through = tl.exp(total) * tl.sum(tl.sum(h.to(tl.float32) * dh.to(tl.float32), 1), 0)
        db += tl.dot((x.to(tl.float32) * to_end[:, None]).to(dh.dtype), dh, input_precision=PRECISION)
        dc += tl.dot((dy.to(tl.float32) * since[:, None]).to(h.dtype), h, input_precision=PRECISION)

        change = tl.sum(crossing, 1) - tl.sum(crossing, 0) + leaving - entering
        dfade = tl.cumsum(change, 0, reverse=True) + tl.sum(entering, 0) + through
        tl.store(dx_at + channels, dx.to(dx_at.dtype.element_ty), mask=filled)
        tl.store(dfade_at + fades_at, dfade.to(dfade_at.dtype.element_ty), mask=real)
    dmatch = dmatch.to(b.dtype)
    db += tl.dot(tl.trans(dmatch), c, input_precision=PRECISION)
    dc += tl.dot(dmatch, b, input_precision=PRECISION)
    of_share = share.to(tl.int64) * batch * time * groups * states
    tl.store(db_at + of_share + codes, db, mask=coded)
    tl.store(dc_at + of_share + codes, dc, mask=coded)


def forward(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the last state in float32, and the state before each chunk (B, M, H, P, N) in the type of x."""
    batch, time, heads, _ = x.shape
    x, log_decay, b, c = (each.contiguous() for each in (x, log_decay, b, c))
    starts, last = pass_states(x, log_decay, b, h, chunk)
    y = torch.empty_like(x)
    _read[(triton.cdiv(time, chunk), heads, batch)](
        x, log_decay, b, c, starts, y, *sizes(x, b), **tiles(x, b, chunk), num_warps=4)
    return y, last, starts


def backward(
    dy: Tensor, dlast: Tensor, x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, starts: Tensor, chunk: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, log_decay, b, c and of the state before the first step."""
    (batch, time, heads, _), groups = x.shape, b.shape[2]
    dy, x, log_decay, b, c = (each.contiguous() for each in (dy.to(x.dtype), x, log_decay, b, c))
    dstarts, dh = pass_states(dy, log_decay, c, dlast, chunk, backward=True)
    chunks, of_group = triton.cdiv(time, chunk), heads // groups
    shares = next(n for n in range(1, of_group + 1)
                  if of_group % n == 0 and (n == of_group or n * batch * chunks * groups >= PROGRAMS))
    dx, dfade = torch.empty_like(x), torch.empty_like(log_decay)
    db, dc = (b.new_empty(shares, *b.shape, dtype=torch.float32) for _ in range(2))
    _differentiate[(chunks, shares, batch * groups)](
        dy, x, log_decay, b, c, starts, dstarts, dx, dfade, db, dc, batch, *sizes(x, b), of_group // shares,
        **tiles(x, b, chunk), num_warps=8, num_stages=stages(x.device))
    return dx, dfade, db.sum(0).to(b.dtype), dc.sum(0).to(c.dtype), dh


def pass_states(
    x: Tensor, log_decay: Tensor, b: Tensor, first: Tensor | None, chunk: int, *, backward: bool = False
) -> tuple[Tensor, Tensor]:
    """The state that enters each chunk (B, M, H, P, N), from the end on if `backward`; and the one that comes out."""
    batch, time, heads, width = x.shape
    starts = x.new_empty(batch, triton.cdiv(time, chunk), heads, width, b.shape[3])
    last = x.new_empty(batch, heads, width, b.shape[3], dtype=torch.float32)
    first = None if first is None else first.contiguous()
    _pass_states[(heads, batch)](
        x, log_decay, b, x if first is None else first, starts, last, *sizes(x, b), HAS_FIRST=first is not None,
        BACKWARD=backward, **tiles(x, b, chunk), num_warps=4)
    return starts, last


def stages(device: torch.device) -> int:
    """2 to load a head while the one before is multiplied, where there is memory for both, as on an H200."""
    if device.type != "cuda":
        return 1
    return 2 if getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0) >= ROOM else 1


def sizes(x: Tensor, b: Tensor) -> tuple[int, int, int, int, int]:
    """Time, heads, groups, head width and states."""
    return x.shape[1], x.shape[2], b.shape[2], x.shape[3], b.shape[3]


def tiles(x: Tensor, b: Tensor, chunk: int) -> dict[str, int | str]:
    """The sides of what a program multiplies; in float32 products are exact, as everywhere."""
    wide, many = (max(LEAST, triton.next_power_of_2(each)) for each in (x.shape[3], b.shape[3]))
    return dict(Q=chunk, P=wide, N=many, PRECISION="ieee" if x.dtype == torch.float32 else "tf32")
