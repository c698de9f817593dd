"""State spaces of heads in Triton: every chunk of Q steps is a few products of matrices, forward and backward.

`_pass_states` goes through the chunks one after another and keeps the state before each; backwards it passes the
gradients of the states on in the same way. Given the states, all chunks are independent: `_read` gives the outputs of
one head in one chunk, `_of_heads` the gradients of x and of the decays of some heads, `_of_codes` those of b and c,
summed over the heads of their group. With l the sum of log_decay from the chunk's first step on:

    y[t] = sum over s <= t of exp(l[t] - l[s]) (c[t] . b[s]) x[s]  +  exp(l[t]) h c[t]
    h'   = exp(l[Q]) h + sum over s of exp(l[Q] - l[s]) x[s] b[s]^T

What log_decay[r] changes is all that is carried across r: from the chunk's steps before r to those from r on, out of
the state, and into the next. Nothing is divided, so any decay will do. No atomics, so the same numbers every time.
B batch · T time · H heads · P head width · G groups · N states · M chunks · WIDE states of one program
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 1024              # wanted of the backward pass, a few for each processor of a GPU
WIDE = 128                   # states of one program where they need not be together
# Warps and stages of each kernel, the quickest of those tried on an H200.
PASS, READ = dict(num_warps=4, num_stages=2), dict(num_warps=4, num_stages=3)
OF_HEADS, OF_CODES = dict(num_warps=4, num_stages=1), dict(num_warps=4, num_stages=2)
LEAST = 16                   # of each side of a product


@triton.jit
def _pass_states(
    x_at, fade_at, b_at, first_at, starts_at, last_at, met_at, through_at, time, heads: tl.constexpr,
    groups: tl.constexpr, width: tl.constexpr, states: tl.constexpr, HAS_FIRST: tl.constexpr, BACKWARD: tl.constexpr,
    Q: tl.constexpr, P: tl.constexpr, WIDE: tl.constexpr, PRECISION: tl.constexpr,
):
    """h' = exp(l[Q]) h + x'^T b, x' being x times exp(l[Q] - l), or backwards, from the last chunk on, exp(l).

    Backwards each gradient meets the state before its chunk: their product, summed, is what goes through the chunk.
    """
    head, row = tl.program_id(1), tl.program_id(2).to(tl.int64)
    q, p, n = tl.arange(0, Q), tl.arange(0, P), tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    group = head // (heads // groups)
    inside = (p < width)[:, None] & (n < states)[None, :]
    of_state = p[:, None] * states + n[None, :]
    of_row = row * time * heads + head
    first = (row * heads + head) * width * states
    h = tl.zeros((P, WIDE), tl.float32)
    if HAS_FIRST:
        h = tl.load(first_at + first + of_state, mask=inside, other=0.0).to(tl.float32)
    chunks = tl.cdiv(time, Q)
    for turn in range(0, chunks):
        chunk = turn
        if BACKWARD:
            chunk = chunks - 1 - turn
        here = ((row * chunks + chunk) * heads + head) * width * states
        tl.store(starts_at + here + of_state, h.to(starts_at.dtype.element_ty), mask=inside)
        if BACKWARD:
            met = tl.load(met_at + here + of_state, mask=inside, other=0.0).to(tl.float32)
            of_chunk = ((row * chunks + chunk) * heads + head) * tl.num_programs(0)
            tl.store(through_at + of_chunk + tl.program_id(0), tl.sum(met * h))
        t = chunk * Q + q
        real = t < time
        channels = t[:, None] * (heads * width) + p[None, :]
        codes = t[:, None] * (groups * states) + n[None, :]
        fades = tl.load(fade_at + of_row + t * heads, mask=real, other=0.0).to(tl.float32)
        x = tl.load(x_at + of_row * width + channels, mask=real[:, None] & (p < width)[None, :], other=0.0)
        b = tl.load(b_at + (row * time * groups + group) * states + codes,
                    mask=real[:, None] & (n < states)[None, :], other=0.0)
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
    x_at, fade_at, b_at, c_at, starts_at, y_at, time, heads: tl.constexpr, groups: tl.constexpr, width: tl.constexpr,
    states: tl.constexpr,
    Q: tl.constexpr, P: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
):
    chunk, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    chunks = tl.num_programs(0)
    q, p, n = tl.arange(0, Q), tl.arange(0, P), tl.arange(0, N)
    group = head // (heads // groups)
    t = chunk * Q + q
    real = t < time
    of_row = row * time * heads + head
    of_codes = (row * time * groups + group) * states
    channels = t[:, None] * (heads * width) + p[None, :]
    codes = t[:, None] * (groups * states) + n[None, :]
    fades = tl.load(fade_at + of_row + t * heads, mask=real, other=0.0).to(tl.float32)
    filled = real[:, None] & (p < width)[None, :]
    coded = real[:, None] & (n < states)[None, :]
    x = tl.load(x_at + of_row * width + channels, mask=filled, other=0.0)
    b = tl.load(b_at + of_codes + codes, mask=coded, other=0.0)
    c = tl.load(c_at + of_codes + codes, mask=coded, other=0.0)
    here = ((row * chunks + chunk) * heads + head) * width * states
    h = tl.load(starts_at + here + p[:, None] * states + n[None, :],
                mask=(p < width)[:, None] & (n < states)[None, :], other=0.0)
    so_far = tl.cumsum(fades, 0)
    earlier = q[:, None] >= q[None, :]                                                 # (t, s)
    left = tl.exp(tl.where(earlier, so_far[:, None] - so_far[None, :], float("-inf")))
    kernel = tl.dot(c, tl.trans(b), input_precision=PRECISION) * left
    y = tl.exp(so_far)[:, None] * tl.dot(c, tl.trans(h), input_precision=PRECISION)
    y += tl.dot(kernel.to(x.dtype), x, input_precision=PRECISION)
    tl.store(y_at + of_row * width + channels, y.to(y_at.dtype.element_ty), mask=filled)


@triton.jit
def _of_heads(
    dy_at, x_at, fade_at, b_at, c_at, starts_at, dstarts_at, through_at, dx_at, dfade_at, dmatch_at,
    time, heads: tl.constexpr, groups: tl.constexpr, width: tl.constexpr, states: tl.constexpr, per_program,
    Q: tl.constexpr, P: tl.constexpr, N: tl.constexpr, SLICES: tl.constexpr, PRECISION: tl.constexpr,
):
    """The gradients of x and log_decay of the program's heads in a chunk; of c[t] . b[s], which they share, the sum."""
    chunk, share, place = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    chunks, row, group = tl.num_programs(0), (place // groups).to(tl.int64), place % groups
    q, p, n = tl.arange(0, Q), tl.arange(0, P), tl.arange(0, N)
    t = chunk * Q + q
    real = t < time
    filled = real[:, None] & (p < width)[None, :]
    coded = real[:, None] & (n < states)[None, :]
    kept = (p < width)[:, None] & (n < states)[None, :]
    channels = t[:, None] * (heads * width) + p[None, :]
    codes = t[:, None] * (groups * states) + n[None, :]
    of_state = p[:, None] * states + n[None, :]
    of_codes = (row * time * groups + group) * states
    b = tl.load(b_at + of_codes + codes, mask=coded, other=0.0)
    c = tl.load(c_at + of_codes + codes, mask=coded, other=0.0)
    match = tl.dot(b, tl.trans(c), input_precision=PRECISION)                          # (s, t): dx wants it so
    earlier, strictly = q[:, None] <= q[None, :], q[:, None] < q[None, :]
    dmatch = tl.zeros((Q, Q), tl.float32)
    begin = group * (heads // groups) + share * per_program
    for head in range(begin, begin + per_program):
        of_row = row * time * heads + head
        fades = tl.load(fade_at + of_row + t * heads, mask=real, other=0.0).to(tl.float32)
        x = tl.load(x_at + of_row * width + channels, mask=filled, other=0.0)
        dy = tl.load(dy_at + of_row * width + channels, mask=filled, other=0.0)
        here = ((row * chunks + chunk) * heads + head) * width * states
        h = tl.load(starts_at + here + of_state, mask=kept, other=0.0)
        dh = tl.load(dstarts_at + here + of_state, mask=kept, other=0.0)               # of the state after the chunk
        so_far = tl.cumsum(fades, 0)
        total = tl.sum(fades, 0)
        left = tl.exp(tl.where(earlier, so_far[None, :] - so_far[:, None], float("-inf")))

        # Within the chunk.
        wanted = tl.dot(x, tl.trans(dy), input_precision=PRECISION) * left
        dmatch += wanted
        crossing = tl.where(strictly, wanted * match, 0.0)
        change = tl.sum(crossing, 0) - tl.sum(crossing, 1)
        dx = tl.dot((match * left).to(dy.dtype), dy, input_precision=PRECISION)

        # Into the state after the chunk, and out of the state before it.
        from_state = tl.exp(so_far)[:, None] * tl.dot(c, tl.trans(h), input_precision=PRECISION)
        change += tl.sum(dy.to(tl.float32) * from_state, 1)
        to_state = tl.exp(total - so_far)[:, None] * tl.dot(b, tl.trans(dh), input_precision=PRECISION)
        entering = tl.sum(x.to(tl.float32) * to_state, 1)
        dx += to_state
        of_chunk = ((row * chunks + chunk) * heads + head) * SLICES
        through = tl.exp(total) * tl.sum(tl.load(through_at + of_chunk + tl.arange(0, SLICES)))

        dfade = tl.cumsum(change - entering, 0, reverse=True) + tl.sum(entering, 0) + through
        tl.store(dx_at + of_row * width + channels, dx.to(dx_at.dtype.element_ty), mask=filled)
        tl.store(dfade_at + of_row + t * heads, dfade.to(dfade_at.dtype.element_ty), mask=real)
    of_program = (share * tl.num_programs(2) + place).to(tl.int64) * chunks + chunk
    tl.store(dmatch_at + of_program * Q * Q + q[:, None] * Q + q[None, :], dmatch)


@triton.jit
def _of_codes(
    dy_at, x_at, fade_at, b_at, c_at, starts_at, dstarts_at, dmatch_at, db_at, dc_at,
    time, heads: tl.constexpr, groups: tl.constexpr, width: tl.constexpr, states: tl.constexpr,
    Q: tl.constexpr, P: tl.constexpr, WIDE: tl.constexpr, PRECISION: tl.constexpr,
):
    """The gradients of b and c of a group in a chunk, for some of the states."""
    chunk, place, chunks = tl.program_id(0), tl.program_id(2), tl.num_programs(0)
    row, group = (place // groups).to(tl.int64), place % groups
    q, p, n = tl.arange(0, Q), tl.arange(0, P), tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    t = chunk * Q + q
    real = t < time
    filled = real[:, None] & (p < width)[None, :]
    coded = real[:, None] & (n < states)[None, :]
    kept = (p < width)[:, None] & (n < states)[None, :]
    channels = t[:, None] * (heads * width) + p[None, :]
    codes = t[:, None] * (groups * states) + n[None, :]
    of_state = p[:, None] * states + n[None, :]
    of_codes = (row * time * groups + group) * states
    b = tl.load(b_at + of_codes + codes, mask=coded, other=0.0)
    c = tl.load(c_at + of_codes + codes, mask=coded, other=0.0)
    dmatch = tl.load(dmatch_at + (place.to(tl.int64) * chunks + chunk) * Q * Q + q[:, None] * Q + q[None, :])
    dmatch = dmatch.to(b.dtype)
    db = tl.dot(dmatch, c, input_precision=PRECISION)
    dc = tl.dot(tl.trans(dmatch), b, input_precision=PRECISION)
    begin = group * (heads // groups)
    for head in range(begin, begin + heads // groups):
        of_row = row * time * heads + head
        fades = tl.load(fade_at + of_row + t * heads, mask=real, other=0.0).to(tl.float32)
        x = tl.load(x_at + of_row * width + channels, mask=filled, other=0.0)
        dy = tl.load(dy_at + of_row * width + channels, mask=filled, other=0.0)
        here = ((row * chunks + chunk) * heads + head) * width * states
        h = tl.load(starts_at + here + of_state, mask=kept, other=0.0)
        dh = tl.load(dstarts_at + here + of_state, mask=kept, other=0.0)
        so_far = tl.cumsum(fades, 0)
        x = (x.to(tl.float32) * tl.exp(tl.sum(fades, 0) - so_far)[:, None]).to(dh.dtype)
        dy = (dy.to(tl.float32) * tl.exp(so_far)[:, None]).to(h.dtype)
        db += tl.dot(x, dh, input_precision=PRECISION)
        dc += tl.dot(dy, h, input_precision=PRECISION)
    tl.store(db_at + of_codes + codes, db.to(db_at.dtype.element_ty), mask=coded)
    tl.store(dc_at + of_codes + codes, dc.to(dc_at.dtype.element_ty), mask=coded)


def forward(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the last state in float32, and the state before each chunk (B, M, H, P, N) in the type of x."""
    batch, time, heads, width = x.shape
    x, log_decay, b, c = (each.contiguous() for each in (x, log_decay, b, c))
    starts, last, _ = pass_states(x, log_decay, b, h, chunk)
    y = torch.empty_like(x)
    _read[(triton.cdiv(time, chunk), heads, batch)](
        x, log_decay, b, c, starts, y, *sizes(x, b), Q=chunk, P=side(width), N=side(b.shape[3]),
        PRECISION=precision(x), **READ)
    return y, last, starts


def backward(
    dy: Tensor, dlast: Tensor, x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, starts: Tensor, chunk: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, log_decay, b, c and of the state before the first step."""
    (batch, time, heads, width), (groups, states) = x.shape, b.shape[2:]
    dy, x, log_decay, b, c = (each.contiguous() for each in (dy.to(x.dtype), x, log_decay, b, c))
    dstarts, dh, through = pass_states(dy, log_decay, c, dlast, chunk, starts)
    chunks, of_group = triton.cdiv(time, chunk), heads // groups
    shares = next(n for n in range(1, of_group + 1)
                  if of_group % n == 0 and (n == of_group or n * batch * chunks * groups >= PROGRAMS))
    dx, dfade, db, dc = (torch.empty_like(each) for each in (x, log_decay, b, c))
    dmatch = b.new_empty(shares, batch * groups, chunks, chunk, chunk, dtype=torch.float32)
    read = dy, x, log_decay, b, c, starts, dstarts
    _of_heads[(chunks, shares, batch * groups)](
        *read, through, dx, dfade, dmatch, *sizes(x, b), of_group // shares, Q=chunk, P=side(width), N=side(states),
        SLICES=through.shape[3], PRECISION=precision(x), **OF_HEADS)
    dmatch = dmatch[0] if shares == 1 else dmatch.sum(0)
    wide = min(WIDE, side(states))
    _of_codes[(chunks, triton.cdiv(states, wide), batch * groups)](
        *read, dmatch, db, dc, *sizes(x, b), Q=chunk, P=side(width), WIDE=wide, PRECISION=precision(x),
        **OF_CODES)
    return dx, dfade, db, dc, dh


def pass_states(
    x: Tensor, log_decay: Tensor, b: Tensor, first: Tensor | None, chunk: int, met: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The state that enters each chunk (B, M, H, P, N), and the one that comes out.

    With the states `met` before each chunk it goes from the end on, with gradients; and returns the products of the
    two, summed over some of the states (B, M, H, slices).
    """
    batch, time, heads, width = x.shape
    starts = x.new_empty(batch, triton.cdiv(time, chunk), heads, width, b.shape[3])
    last = x.new_empty(batch, heads, width, b.shape[3], dtype=torch.float32)
    first = None if first is None else first.contiguous()
    wide = min(WIDE, side(b.shape[3]))
    slices = triton.cdiv(b.shape[3], wide)
    through = x.new_empty(*starts.shape[:3], slices, dtype=torch.float32)
    _pass_states[(slices, heads, batch)](
        x, log_decay, b, x if first is None else first, starts, last, starts if met is None else met, through,
        *sizes(x, b), HAS_FIRST=first is not None, BACKWARD=met is not None, Q=chunk, P=side(width), WIDE=wide,
        PRECISION=precision(x), **PASS)
    return starts, last, through


def sizes(x: Tensor, b: Tensor) -> tuple[int, int, int, int, int]:
    """Time, heads, groups, head width and states."""
    return x.shape[1], x.shape[2], b.shape[2], x.shape[3], b.shape[3]


def side(length: int) -> int:
    """The side of a matrix that is multiplied, which has a length like this."""
    return max(LEAST, triton.next_power_of_2(length))


def precision(x: Tensor) -> str:
    """In float32 products are exact, as everywhere; half precision knows no other."""
    return "ieee" if x.dtype == torch.float32 else "tf32"
