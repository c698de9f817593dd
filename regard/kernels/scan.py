"""The scan: h[t] = a[t] * h[t-1] + b[t], channel by channel. Every linear recurrence comes down to it.

Three paths to the same numbers, held equal by tests:

    scan_loop    the definition, one step after another
    torch        plain torch, on any device: pieces of the sequence side by side
    triton       CUDA, one kernel forward and one backward (cuda/scan.py)

`scan` takes the fastest at hand (`kernels.path(x)` says which), or the `path` it is given. The gradient of a scan is a
scan from the end:

    g[t] = dh[t] + a[t+1] * g[t+1],        da[t] = g[t] * h[t-1],        db[t] = g[t],        dh0 = a[1] * g[1]

B batch · T time · D channels · N pieces · C length of a piece
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard import kernels
from regard.contract import last_real
from regard.kernels.exported import exporting, loop

WIDE = 4096              # numbers at one position from which a step costs more than the call that makes it (on a CPU)
SHORT = 16               # positions up to which cutting into pieces is no faster


def scan(a: Tensor, b: Tensor, h0: Tensor | None = None, *, path: str = "auto") -> Tensor:
    """h[t] = a[t] * h[t-1] + b[t]: (B, T, D).

    `a` is anything that broadcasts to b, (D,) for a constant decay; h0 is (B, D), zero if not given. Sums are kept in
    float32 or better, and the result has the wider type of a and b. `path`: auto · triton · torch.
    """
    assert b.ndim == 3 and b.shape[1], f"a scan goes over (B, T, D) with at least one position, not {tuple(b.shape)}"
    if path == "auto" and b.shape[1] == 1:                 # a single step is the equation
        return scan_loop(a, b, h0)
    if exporting():
        return _exported(a.expand_as(b), b, h0)
    run = _scan_op if torch.compiler.is_compiling() else _Scan.apply
    return run(a if a.shape == b.shape else a.expand_as(b), b, h0, kernels.path(b) if path == "auto" else path)


def _exported(a: Tensor, b: Tensor, h0: Tensor | None) -> Tensor:
    def step(before: tuple[Tensor, ...], now: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        (h,), (a_t, b_t) = before, now
        h = a_t * h + b_t
        return (h,), h

    return loop(step, (torch.zeros_like(b[:, 0]) if h0 is None else h0,), (a, b))[1]


def choose_backend(x: Tensor) -> kernels.Backend:
    """The code that scans tensors like this one, and why it is not the faster one."""
    return kernels.Backend(kernels.path(x), kernels.reason(x))


def scan_loop(a: Tensor, b: Tensor, h0: Tensor | None = None) -> Tensor:
    """The definition."""
    h = torch.zeros_like(b[:, 0]) if h0 is None else h0
    states = []
    for a_t, b_t in zip(a.expand_as(b).unbind(1), b.unbind(1), strict=True):
        h = a_t * h + b_t
        states.append(h)
    return torch.stack(states, 1)


def state_after(before: Tensor, h: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, D): the state after each row's last real position; a row that read nothing keeps the one before."""
    if lengths is None:
        return h[:, -1]
    last = last_real(h, lengths)
    return torch.where((lengths > 0)[:, None], last, before.to(last.dtype))


# ------------------------------------------------------------------------------------- forward, backward


def _forward(a: Tensor, b: Tensor, h0: Tensor | None, path: str) -> Tensor:
    if path == "triton":
        from regard.kernels.cuda.scan import forward

        return forward(a, b, h0)
    dtype = _kept_in(a, b)
    h = torch.empty(b.shape, dtype=dtype, device=b.device)
    _in_pieces(a.to(dtype), b.to(dtype), None if h0 is None else h0.to(dtype), h)
    return h.to(torch.promote_types(a.dtype, b.dtype))


def _backward(a: Tensor, h: Tensor, h0: Tensor | None, dh: Tensor, path: str) -> tuple[Tensor, Tensor, Tensor]:
    """da, db and dh0 from the gradient dh of what `_forward` gave."""
    if path == "triton":
        from regard.kernels.cuda.scan import backward

        return backward(a, h, h0, dh)
    dtype = _kept_in(a, h)
    a_, h_, dh_ = a.to(dtype), h.to(dtype), dh.to(dtype)
    g = torch.empty(h.shape, dtype=dtype, device=h.device)
    _in_pieces(a_, dh_, None, g, backwards=True)
    da = torch.empty_like(g)
    torch.mul(g[:, 1:], h_[:, :-1], out=da[:, 1:])
    da[:, 0] = 0 if h0 is None else g[:, 0] * h0
    return da.to(a.dtype), g.to(h.dtype), (a_[:, 0] * g[:, 0]).to(h.dtype)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None, str], output: Tensor) -> None:
    a, b, h0, ctx.path = inputs
    ctx.types = b.dtype, None if h0 is None else h0.dtype
    ctx.save_for_backward(a, output, h0)


class _Scan(torch.autograd.Function):
    """The scan and its gradient, as they run by default."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, h0: Tensor | None, path: str) -> Tensor:
        h = _forward(a, b, h0, path)
        _keep(ctx, (a, b, h0, path), h)                    # not in `setup_context`, which costs a call on every scan
        return h

    @staticmethod
    def backward(ctx: Any, dh: Tensor) -> Any:                                         # type: ignore[override]
        return _gradients(ctx, dh, _backward)


# The same two as operations of torch's own kind, which torch.compile takes whole instead of unrolling T steps. They
# load the compiler when they first run, which is why nobody else uses them.
_scan_op = torch.library.custom_op("regard::scan", _forward, mutates_args=())
_gradient_op = torch.library.custom_op("regard::scan_gradient", _backward, mutates_args=())
_scan_op.register_autograd(lambda ctx, dh: _gradients(ctx, dh, _gradient_op), setup_context=_keep)


def _gradients(ctx: Any, dh: Tensor, backward: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> Any:
    a, h, h0 = ctx.saved_tensors
    da, db, dh0 = backward(a, h, h0, dh, ctx.path)
    of_b, of_h0 = ctx.types
    return da, db.to(of_b), None if of_h0 is None else dh0.to(of_h0), None


@_scan_op.register_fake
def _(a: Tensor, b: Tensor, h0: Tensor | None, path: str) -> Tensor:
    return torch.empty(b.shape, dtype=torch.promote_types(a.dtype, b.dtype), device=b.device)


@_gradient_op.register_fake
def _(a: Tensor, h: Tensor, h0: Tensor | None, dh: Tensor, path: str) -> tuple[Tensor, Tensor, Tensor]:
    da = torch.empty(h.shape, dtype=a.dtype, device=h.device)
    return da, torch.empty(h.shape, dtype=h.dtype, device=h.device), h.new_empty(h.shape[0], h.shape[2])


def _kept_in(a: Tensor, b: Tensor) -> torch.dtype:
    """The type in which sums are kept."""
    return torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)


# --------------------------------------------------------------------------------------- in plain torch


def _in_pieces(a: Tensor, b: Tensor, h0: Tensor | None, h: Tensor, *, backwards: bool = False) -> None:
    """Write the scan of a and b into h, all (B, T, D); backwards it is h[t] = a[t+1] * h[t+1] + b[t], as of gradients.

    A step over few channels costs less than the call that makes it. So the sequence is cut into N pieces of C, which
    run side by side, twice: first from zero, to learn what each does to the state that enters it (it becomes
    product * state + sum); then, with the states that really enter, for good. Only products and sums: nothing is
    divided and no logarithm is taken, so any sign and any size of `a` will do.
    """
    length = b.shape[1]
    size = piece(length) if length > SHORT and b.shape[0] * b.shape[2] < WIDE else length
    left = length % size                                            # what is left over goes step by step
    parts = ((left, length), (0, left)) if backwards else ((0, length - left), (length - left, length))
    state = h.new_zeros(h.shape[0], h.shape[2]) if h0 is None else h0
    for (begin, end), steps in zip(parts, (size, left), strict=True):
        if steps:
            a_, b_, h_ = (x[:, begin:end].unflatten(1, (-1, steps)).unbind(2) for x in (a, b, h))   # C of (B, N, D)
            if backwards:
                a_ = (*a_[1:], _first_of_next(a_[0], a[:, end:]))
                a_, b_, h_ = a_[::-1], b_[::-1], h_[::-1]
            entering = _entering(a_, b_, state, backwards)
            state = _steps(a_, b_, h_, entering)[:, 0 if backwards else -1]


def _first_of_next(first: Tensor, after: Tensor) -> Tensor:
    """(B, N, D): the first position of each next piece; what stands after the last of all meets a state of zero."""
    return torch.cat((first[:, 1:], after[:, :1] if after.shape[1] else first[:, :1]), 1)


def piece(length: int) -> int:
    """Three passes over C positions and one over N pieces cost least when C is about the root of T / 2."""
    return 2 ** round(math.log2(math.sqrt(length / 2)))


def _steps(a: Sequence[Tensor], b: Sequence[Tensor], h: Sequence[Tensor], state: Tensor) -> Tensor:
    """The loop, written into h; the views are made beforehand, which halves its time."""
    for a_t, b_t, h_t in zip(a, b, h, strict=True):
        state = torch.addcmul(b_t, a_t, state, out=h_t)
    return state


def _entering(a: Sequence[Tensor], b: Sequence[Tensor], state: Tensor, backwards: bool) -> Tensor:
    """(B, N, D): the state that enters each piece, `state` entering the first."""
    if a[0].shape[1] == 1:
        return state[:, None]
    total, product = b[0].clone(), a[0].clone()
    for a_t, b_t in zip(a[1:], b[1:], strict=True):
        torch.addcmul(b_t, a_t, total, out=total)
        product.mul_(a_t)
    entering = torch.empty_like(total)
    totals, products, states = (each.unbind(1)[::-1 if backwards else 1] for each in (total, product, entering))
    states[0].copy_(state)
    _steps(products[:-1], totals[:-1], states[1:], state)
    return entering
