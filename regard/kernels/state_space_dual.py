"""The selective scan with one decay a head, as products of matrices (Dao & Gu 2024: state space duality).

    h[t] = exp(log_decay[t]) h[t-1] + x[t] b[t]^T            y[t] = h[t] c[t]

A head's state is a matrix (P, N), and all of it fades alike. So what y[t] reads of x[s] is one number a head,

    kernel[t, s] = (c[t] . b[s]) exp(log_decay[s+1] + ... + log_decay[t])            for s <= t

and a chunk of Q steps is a product with a (Q, Q) matrix, as in attention but without a softmax. Between chunks only
the state is handed on. No loop over time is left, on a CPU or on tensor cores.

x (B, T, H, P) · log_decay (B, T, H), never positive · b, c (B, T, N) · h (B, H, P, N)
B batch · T time · H heads · P head width · N states · M chunks · Q steps of a chunk
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.exported import exporting, loop

CHUNK = {"cpu": 32}          # steps of one product, by kind of device ...
USUAL_CHUNK = 128            # ... and on any other; both measured


def state_space_dual_loop(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The definition, a step at a time: y (B, T, H, P), and the state after the last step."""
    h = x.new_zeros(x.shape[0], *x.shape[2:], b.shape[-1]) if h is None else h
    outputs = []
    for t in range(x.shape[1]):
        h = log_decay[:, t, :, None, None].exp() * h + x[:, t, :, :, None] * b[:, t, None, None]
        outputs.append((h * c[:, t, None, None]).sum(-1))
    return torch.stack(outputs, 1), h


def state_space_dual(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None = None, *, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """As the loop, by chunks: y (B, T, H, P) in the type of x. Decays and the states between chunks are in float32."""
    if exporting():                                      # a number of chunks is a length, too
        return _exported(x, log_decay, b, c, h)
    time, dtype = x.shape[1], torch.promote_types(x.dtype, torch.float32)
    size = min(chunk or CHUNK.get(x.device.type, USUAL_CHUNK), time)
    pads = -time % size
    x_, fades, b_, c_ = (in_chunks(each, size, pads) for each in (x.flatten(2), log_decay.to(dtype), b, c))
    x_ = x_.unflatten(-1, x.shape[2:]).transpose(2, 3)                            # (B, M, H, Q, P)
    so_far = fades.transpose(2, 3).cumsum(-1)                                     # (B, M, H, Q)
    y = (between(so_far).to(x.dtype) * (c_ @ b_.mT)[:, :, None]) @ x_             # within a chunk
    to_end = (so_far[..., -1:] - so_far).exp().to(x.dtype)
    written = (x_ * to_end[..., None]).mT @ b_[:, :, None]                        # (B, M, H, P, N): what a chunk adds
    states = states_between(so_far[..., -1], written.to(dtype), h)                # (B, M + 1, H, P, N)
    read = c_[:, :, None] @ states[:, :-1].to(x.dtype).mT                         # (B, M, H, Q, P)
    y = y + so_far.exp().to(x.dtype)[..., None] * read
    return y.transpose(2, 3).flatten(1, 2)[:, :time], states[:, -1]


def _exported(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None
) -> tuple[Tensor, Tensor]:
    def step(before: tuple[Tensor, ...], now: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        (h,), (x_t, fade, b_t, c_t) = before, now
        h = fade[..., None, None].exp() * h + x_t[..., None] * b_t[:, None, None]
        return (h,), (h * c_t[:, None, None]).sum(-1)

    first = x.new_zeros(x.shape[0], *x.shape[2:], b.shape[-1]) if h is None else h
    (last,), y = loop(step, (first,), (x, log_decay, b, c))
    return y, last


def in_chunks(x: Tensor, size: int, pads: int) -> Tensor:
    """(B, T, ...) as (B, M, Q, ...); what is added at the end is zero: nothing fades there, nothing is written."""
    return (F.pad(x, (0, 0, 0, pads)) if pads else x).unflatten(1, (-1, size))


def between(so_far: Tensor) -> Tensor:
    """(..., Q, Q): how much of what was written at s is left at t, and zero where s comes after t."""
    size = so_far.shape[-1]
    later = torch.ones(size, size, dtype=torch.bool, device=so_far.device).triu(1)
    return (so_far[..., :, None] - so_far[..., None, :]).masked_fill(later, -math.inf).exp()


def states_between(fades: Tensor, written: Tensor, h: Tensor | None) -> Tensor:
    """(B, M + 1, H, P, N): the state before each chunk, and after the last; h[m+1] = exp(fade[m]) h[m] + written[m]."""
    now = torch.zeros_like(written[:, 0]) if h is None else h.to(written.dtype)
    states = [now]
    for fade, added in zip(fades.exp().unbind(1), written.unbind(1), strict=True):
        now = fade[..., None, None] * now + added
        states.append(now)
    return torch.stack(states, 1)
