"""A causal convolution of each channel by itself in Triton: a program takes some positions of some channels.

    y[t] = bias + sum over j of w[j] x[t - K + 1 + j]
    dx[t] = sum over j of w[j] dy[t + K - 1 - j]            dw[j] = sum over t of dy[t] x[t - K + 1 + j]

The K rows that a position reads were read by its neighbours too, and are in the cache. The gradients of weight and
bias are summed by each program over its positions, and over the programs afterwards: the same numbers every time.
B batch · T time · D channels · K taps
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TIMES, WIDE = 64, 128        # positions and channels of a program


@triton.jit
def _forward(
    x_at, weight_at, bias_at, y_at, time, width, row_stride, time_stride,
    TAPS: tl.constexpr, TIMES: tl.constexpr, WIDE: tl.constexpr,
):
    row = tl.program_id(2).to(tl.int64)
    t, d = tl.program_id(1) * TIMES + tl.arange(0, TIMES), tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    there = (d < width)[None, :]
    y = tl.zeros((TIMES, WIDE), tl.float32) + tl.load(bias_at + d, mask=d < width, other=0.0).to(tl.float32)[None, :]
    for j in tl.static_range(TAPS):
        s = t - (TAPS - 1) + j
        x = tl.load(x_at + row * row_stride + s[:, None] * time_stride + d[None, :],
                    mask=((s >= 0) & (s < time))[:, None] & there, other=0.0)
        tap = tl.load(weight_at + d * TAPS + j, mask=d < width, other=0.0)
        y += tap.to(tl.float32)[None, :] * x.to(tl.float32)
    of_y = row * time * width + t[:, None] * width + d[None, :]
    tl.store(y_at + of_y, y.to(y_at.dtype.element_ty), mask=(t < time)[:, None] & there)


@triton.jit
def _backward(
    dy_at, x_at, weight_at, dx_at, sums_at, time, width, row_stride, time_stride,
    TAPS: tl.constexpr, TIMES: tl.constexpr, WIDE: tl.constexpr,
):
    """dx, and of the program's positions the sums of the taps' gradients and, behind them, of the bias'."""
    row = tl.program_id(2).to(tl.int64)
    t, d = tl.program_id(1) * TIMES + tl.arange(0, TIMES), tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    there = (d < width)[None, :]
    real = (t < time)[:, None] & there
    begin = row * time * width
    of_dy = begin + t[:, None] * width + d[None, :]
    dy = tl.load(dy_at + of_dy, mask=real, other=0.0).to(tl.float32)
    of_sums = (row * tl.num_programs(1) + tl.program_id(1)) * (TAPS + 1) * width + d
    dx = tl.zeros((TIMES, WIDE), tl.float32)
    for j in tl.static_range(TAPS):
        tap = tl.load(weight_at + d * TAPS + j, mask=d < width, other=0.0).to(tl.float32)
        later, s = t + (TAPS - 1) - j, t - (TAPS - 1) + j
        pull = tl.load(dy_at + begin + later[:, None] * width + d[None, :],
                       mask=(later < time)[:, None] & there, other=0.0)
        dx += tap[None, :] * pull.to(tl.float32)
        x = tl.load(x_at + row * row_stride + s[:, None] * time_stride + d[None, :],
                    mask=((s >= 0) & (s < time))[:, None] & there, other=0.0)
        tl.store(sums_at + of_sums + j * width, tl.sum(dy * x.to(tl.float32), 0), mask=d < width)
    tl.store(sums_at + of_sums + TAPS * width, tl.sum(dy, 0), mask=d < width)
    tl.store(dx_at + of_dy, dx.to(dx_at.dtype.element_ty), mask=real)


def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """y (B, T, D)."""
    x = by_channel(x)
    y = x.new_empty(x.shape)
    _forward[programs(x)](x, weight.contiguous(), bias.contiguous(), y, *sizes(x), TAPS=weight.shape[1], TIMES=TIMES,
                          WIDE=WIDE, num_warps=4)
    return y


def backward(dy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias."""
    dy, x, (width, taps) = dy.contiguous(), by_channel(x), weight.shape
    dx = x.new_empty(x.shape)
    grid = programs(x)
    sums = x.new_empty(grid[1] * grid[2], taps + 1, width, dtype=torch.float32)
    _backward[grid](dy, x, weight.contiguous(), dx, sums, *sizes(x), TAPS=taps, TIMES=TIMES, WIDE=WIDE, num_warps=4)
    found = sums.sum(0).to(weight.dtype)                                              # (K + 1, D)
    return dx, found[:taps].T.contiguous(), found[taps].clone()


def by_channel(x: Tensor) -> Tensor:
    """x with the channels of a position side by side; a slice of a wider tensor will do."""
    return x if x.stride(2) == 1 else x.contiguous()


def programs(x: Tensor) -> tuple[int, int, int]:
    return triton.cdiv(x.shape[2], WIDE), triton.cdiv(x.shape[1], TIMES), x.shape[0]


def sizes(x: Tensor) -> tuple[int, int, int, int]:
    """Time, channels, and how far rows and positions are apart."""
    return x.shape[1], x.shape[2], x.stride(0), x.stride(1)
