"""The selective scan in Triton: forward and backward, the state in registers from the first step to the last.

One program reads one row and a block of `WIDE` channels, from left to right (backward: from right to left), a tile of
`chunk` steps at a time: all N states of all its channels at all steps of the tile are worked out at once by an
associative scan of pairs (decay, input), in registers. Only y, and the state before each tile, are written.

Sums over channels, which the gradients of b and c are, are written block by block and added up afterwards: no atomics,
so the same numbers every time.   B batch · T time · D channels · N states · tiles are (Q, N, WIDE)
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)
WIDE = 8                     # channels a program: few, so that there are enough programs for a GPU
REGISTERS = 168              # a thread in the backward pass, which would take more: so twelve programs fit a processor


@triton.jit
def _then(decay_1, input_1, decay_2, input_2):
    """Two steps of h = decay h + input as one."""
    return decay_1 * decay_2, decay_2 * input_1 + input_2


@triton.jit
def _forward(
    x_at, delta_at, a_at, b_at, c_at, h_at, y_at, last_at, starts_at, time, width, states,
    HAS_H: tl.constexpr, Q: tl.constexpr, N: tl.constexpr, WIDE: tl.constexpr,
):
    row, batch = tl.program_id(1).to(tl.int64), tl.num_programs(1)
    q, n, d = tl.arange(0, Q), tl.arange(0, N), tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    inside = (n < states)[:, None] & (d < width)[None, :]                              # (N, WIDE)
    a = tl.load(a_at + d[None, :] * states + n[:, None], mask=inside, other=0.0).to(tl.float32) * LOG2E
    of_state = row * width * states + d[None, :] * states + n[:, None]
    h = tl.zeros((N, WIDE), tl.float32)
    if HAS_H:
        h = tl.load(h_at + of_state, mask=inside, other=0.0).to(tl.float32)
    for tile in range(0, tl.cdiv(time, Q)):
        tl.store(starts_at + ((tile * batch + row) * states + n[:, None]) * width + d[None, :], h, mask=inside)
        t = tile * Q + q
        channels = (row * time + t)[:, None] * width + d[None, :]                      # (Q, WIDE)
        real = (t < time)[:, None] & (d < width)[None, :]
        codes = (row * time + t)[:, None] * states + n[None, :]                        # (Q, N)
        coded = (t < time)[:, None] & (n < states)[None, :]
        x = tl.load(x_at + channels, mask=real, other=0.0).to(tl.float32)
        delta = tl.load(delta_at + channels, mask=real, other=0.0).to(tl.float32)      # 0 past the end: nothing moves
        b = tl.load(b_at + codes, mask=coded, other=0.0).to(tl.float32)
        c = tl.load(c_at + codes, mask=coded, other=0.0).to(tl.float32)
        decay = tl.exp2(delta[:, None, :] * a[None, :, :])                             # (Q, N, WIDE)
        decays, hs = tl.associative_scan((decay, (delta * x)[:, None, :] * b[:, :, None]), 0, _then)
        hs += decays * h[None, :, :]
        y = tl.sum(hs * c[:, :, None], 1)
        tl.store(y_at + channels, y.to(y_at.dtype.element_ty), mask=real)
        h = tl.sum(tl.where((q == Q - 1)[:, None, None], hs, 0.0), 0)
    tl.store(last_at + of_state, h, mask=inside)


@triton.jit
def _backward(
    dy_at, dlast_at, x_at, delta_at, a_at, b_at, c_at, starts_at,
    dx_at, ddelta_at, da_at, db_at, dc_at, dh_at, time, width, states,
    Q: tl.constexpr, N: tl.constexpr, WIDE: tl.constexpr,
):
    row, batch = tl.program_id(1).to(tl.int64), tl.num_programs(1)
    q, n, d = tl.arange(0, Q), tl.arange(0, N), tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    inside = (n < states)[:, None] & (d < width)[None, :]
    a = tl.load(a_at + d[None, :] * states + n[:, None], mask=inside, other=0.0).to(tl.float32)
    of_state = row * width * states + d[None, :] * states + n[:, None]
    after = tl.load(dlast_at + of_state, mask=inside, other=0.0).to(tl.float32)        # dh at the step to the right
    da = tl.zeros((N, WIDE), tl.float32)
    tiles = tl.cdiv(time, Q)
    for back in range(0, tiles):
        tile = tiles - 1 - back
        start = ((tile * batch + row) * states + n[:, None]) * width + d[None, :]
        h = tl.load(starts_at + start, mask=inside, other=0.0)
        t = tile * Q + q
        channels = (row * time + t)[:, None] * width + d[None, :]
        real = (t < time)[:, None] & (d < width)[None, :]
        codes = (row * time + t)[:, None] * states + n[None, :]
        coded = (t < time)[:, None] & (n < states)[None, :]
        x = tl.load(x_at + channels, mask=real, other=0.0).to(tl.float32)
        delta = tl.load(delta_at + channels, mask=real, other=0.0).to(tl.float32)
        dy = tl.load(dy_at + channels, mask=real, other=0.0).to(tl.float32)
        b = tl.load(b_at + codes, mask=coded, other=0.0).to(tl.float32)
        c = tl.load(c_at + codes, mask=coded, other=0.0).to(tl.float32)
        following = real & (t < time - 1)[:, None]
        delta_next = tl.load(delta_at + channels + width, mask=following, other=0.0).to(tl.float32)

        # The states once more; decay h[t-1], which the exponent's gradient wants, is what the input did not add.
        written = (delta * x)[:, None, :] * b[:, :, None]                              # (Q, N, WIDE)
        decay = tl.exp2(delta[:, None, :] * (a * LOG2E)[None, :, :])
        decays, hs = tl.associative_scan((decay, written), 0, _then)
        hs += decays * h[None, :, :]
        block = tl.program_id(0).to(tl.int64) * batch * time * states
        tl.store(dc_at + block + codes, tl.sum(hs * dy[:, None, :], 2), mask=coded)

        # dh[t] = c[t] dy[t] + decay[t+1] dh[t+1], from the right.
        decay = tl.exp2(delta_next[:, None, :] * (a * LOG2E)[None, :, :])
        decays, dhs = tl.associative_scan((decay, dy[:, None, :] * c[:, :, None]), 0, _then, reverse=True)
        dhs += decays * after[None, :, :]
        after = tl.sum(tl.where((q == 0)[:, None, None], dhs, 0.0), 0)

        tl.store(db_at + block + codes, tl.sum(dhs * (delta * x)[:, None, :], 2), mask=coded)
        dinput = tl.sum(dhs * b[:, :, None], 1)                                        # (Q, WIDE), of delta x
        dexponent = dhs * (hs - written)
        ddelta = dinput * x + tl.sum(dexponent * a[None, :, :], 1)
        da += tl.sum(dexponent * delta[:, None, :], 0)
        tl.store(dx_at + channels, (dinput * delta).to(dx_at.dtype.element_ty), mask=real)
        tl.store(ddelta_at + channels, ddelta.to(ddelta_at.dtype.element_ty), mask=real)
    tl.store(da_at + of_state, da, mask=inside)
    first = tl.load(delta_at + row * time * width + d, mask=d < width, other=0.0).to(tl.float32)
    tl.store(dh_at + of_state, after * tl.exp2(first[None, :] * a * LOG2E), mask=inside)


def forward(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the last state, and the state before each chunk (chunks, B, N, D)."""
    (batch, time, width), states = x.shape, a.shape[1]
    x, delta, a, b, c = (each.contiguous() for each in (x, delta, a, b, c))
    h = None if h is None else h.contiguous()
    y = torch.empty_like(x)
    last = x.new_empty(batch, width, states, dtype=torch.float32)
    starts = x.new_empty(-(-time // chunk), batch, states, width, dtype=torch.float32)
    _forward[(triton.cdiv(width, WIDE), batch)](
        x, delta, a, b, c, x if h is None else h, y, last, starts, time, width, states,
        HAS_H=h is not None, Q=chunk, N=triton.next_power_of_2(states), WIDE=WIDE, num_warps=1)
    return y, last, starts


def backward(
    dy: Tensor, dlast: Tensor, x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, starts: Tensor, chunk: int
) -> tuple[Tensor, ...]:
    """The gradients of x, delta, a, b, c and of the state before the first step."""
    (batch, time, width), states = x.shape, a.shape[1]
    dy, dlast, x, delta, a, b, c = (each.contiguous() for each in (dy, dlast, x, delta, a, b, c))
    blocks = triton.cdiv(width, WIDE)
    dx, ddelta, dh = torch.empty_like(x), torch.empty_like(delta), torch.empty_like(dlast)
    da = x.new_empty(batch, width, states, dtype=torch.float32)
    db, dc = (x.new_empty(blocks, batch, time, states, dtype=torch.float32) for _ in range(2))
    _backward[(blocks, batch)](
        dy, dlast, x, delta, a, b, c, starts, dx, ddelta, da, db, dc, dh, time, width, states,
        Q=chunk, N=triton.next_power_of_2(states), WIDE=WIDE, num_warps=1, maxnreg=REGISTERS)
    return dx, ddelta, da.sum(0).to(a.dtype), db.sum(0).to(b.dtype), dc.sum(0).to(c.dtype), dh
