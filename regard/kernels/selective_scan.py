"""The selective scan: a linear recurrence whose step, input and output depend on what is read (Gu & Dao 2023).

    h[t] = exp(delta[t] a) h[t-1] + delta[t] b[t] x[t]            y[t] = c[t] . h[t]

for each channel d and each of its N states: delta[t] says how much of a step is taken, b[t] what is written, c[t] what
is read.   x, delta (B, T, D) · a (D, N) · b, c (B, T, N) · h (B, D, N);   B batch · T time · D channels · N states

`selective_scan_loop` is the definition. `selective_scan` computes it by Triton kernels on a CUDA device, in plain torch
elsewhere; `choose_backend` says which. Neither ever holds (B, T, D, N): the state is kept once every `CHUNK` steps, and
what lies between is recomputed in the backward pass.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import Backend
from regard.kernels.exported import exporting, loop

CHUNK = 8                    # steps between two states that are saved for the backward pass


def selective_scan_loop(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The definition, a step at a time: y (B, T, D), and the state (B, D, N) after the last step."""
    h = x.new_zeros(x.shape[0], *a.shape) if h is None else h
    outputs = []
    for t in range(x.shape[1]):
        h = torch.exp(delta[:, t, :, None] * a) * h + (delta[:, t] * x[:, t])[..., None] * b[:, t, None]
        outputs.append((h * c[:, t, None]).sum(-1))
    return torch.stack(outputs, 1), h


def selective_scan(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor | None = None, *, path: str = "auto"
) -> tuple[Tensor, Tensor]:
    """As the loop, fast: y in the type of x, the last state in float32 at least. `path`: auto · triton · torch."""
    if exporting():
        return _exported(x, delta, a, b, c, h)
    y, last, _ = torch.ops.regard.selective_scan(x, delta, a, b, c, h, path)
    return y, last


def _exported(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor | None
) -> tuple[Tensor, Tensor]:
    def step(before: tuple[Tensor, ...], now: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        (h,), (x_t, delta_t, b_t, c_t) = before, now
        h = torch.exp(delta_t[..., None] * a) * h + (delta_t * x_t)[..., None] * b_t[:, None]
        return (h,), (h * c_t[:, None]).sum(-1)

    (last,), y = loop(step, (x.new_zeros(x.shape[0], *a.shape) if h is None else h,), (x, delta, b, c))
    return y, last


# ------------------------------------------------------------------------------------------------------------- the path


def choose_backend(device: torch.device, dtype: torch.dtype) -> Backend:
    """The back-end that `selective_scan` chooses for tensors like these; see also `regard.kernels`."""
    reason = kernels.reason_on(device)
    if not reason and dtype == torch.float64:
        reason = "the Triton kernel computes in float32"
    if not reason:
        reason = triton_problem(device.index if device.index is not None else torch.cuda.current_device())
    return Backend("torch", reason) if reason else Backend("triton")


@functools.cache
def triton_problem(index: int) -> str:
    """Why Triton cannot be used on this device, in one line, tried once; empty if it can."""
    try:
        from regard.kernels.cuda import selective_scan as selective_scan_triton

        x, one = torch.ones(1, 2, 1, device=f"cuda:{index}"), torch.ones(1, 1, device=f"cuda:{index}")
        selective_scan_triton.forward(x, x, one, x, x, None, CHUNK)
    except Exception as error:                       # no compiler, no package, an old GPU: each has an error of its own
        told = " ".join(str(error).split())[:200]
        problem = f"Triton does not work here: {type(error).__name__}: {told}"
        warnings.warn(f"selective scans will be slow: {problem}", stacklevel=2)
        return problem
    return ""


def _implementation(path: str, x: Tensor) -> Any:
    """The module or class whose `forward` and `backward` are to be used."""
    if (choose_backend(x.device, x.dtype).name if path == "auto" else path) == "torch":
        return _Torch
    from regard.kernels.cuda import selective_scan as selective_scan_triton

    return selective_scan_triton


# ------------------------------------------------- one operation to autograd and to torch.compile, whatever computes it


@torch.library.custom_op("regard::selective_scan", mutates_args=())
def _forward(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor | None, path: str
) -> tuple[Tensor, Tensor, Tensor]:
    """y (B, T, D); the last state (B, D, N); the state before each chunk (chunks, B, N, D), for the backward pass."""
    return _implementation(path, x).forward(x, delta, a, b, c, h, CHUNK)


@torch.library.custom_op("regard::selective_scan_backward", mutates_args=())
def _backward(
    dy: Tensor, dlast: Tensor, x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, starts: Tensor, path: str
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, delta, a, b, c and of the state before the first step, each in its own type."""
    return _implementation(path, x).backward(dy, dlast, x, delta, a, b, c, starts, CHUNK)


@_forward.register_fake
def _(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor | None, path: str) -> Any:
    batch, time, width = x.shape
    states, dtype = a.shape[1], state_type(x)
    return (x.new_empty(x.shape), x.new_empty(batch, width, states, dtype=dtype),
            x.new_empty(-(-time // CHUNK), batch, states, width, dtype=dtype))


@_backward.register_fake
def _(dy: Tensor, dlast: Tensor, x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, starts: Tensor, path: str
      ) -> Any:
    return *(each.new_empty(each.shape) for each in (x, delta, a, b, c)), dlast.new_empty(dlast.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, delta, a, b, c, h, path = inputs
    ctx.save_for_backward(x, delta, a, b, c, output[2])
    ctx.started_with, ctx.path = None if h is None else h.dtype, path


def _gradients(ctx: Any, dy: Tensor, dlast: Tensor, _: Any) -> tuple[Any, ...]:
    x, delta, a, b, c, starts = ctx.saved_tensors
    *found, dh = torch.ops.regard.selective_scan_backward(dy, dlast, x, delta, a, b, c, starts, ctx.path)
    return *found, None if ctx.started_with is None else dh.to(ctx.started_with), None


_forward.register_autograd(_gradients, setup_context=_keep)


# ---------------------------------------------------------------------------------------------------------- plain torch


def state_type(x: Tensor) -> torch.dtype:
    """A state sums over all of the past: never in less than float32."""
    return torch.promote_types(x.dtype, torch.float32)


class _Torch:
    """Chunk by chunk, time first and channels last in memory, so that each step is one operation on whole vectors."""

    @staticmethod
    def forward(
        x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor | None, chunk: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, width, dtype = x.shape[0], x.shape[2], state_type(x)
        rates = a.to(dtype).mT.contiguous()                                                   # (N, D)
        now = x.new_zeros(batch, a.shape[1], width, dtype=dtype) if h is None else h.to(dtype).mT
        y, starts = x.new_empty(x.shape), []
        for at, (x_, delta_, b_, c_) in chunks((x, delta, b, c), chunk, dtype):
            starts.append(now)
            h_ = states_of_chunk(x_, delta_, torch.exp(delta_[:, :, None] * rates), b_, now)
            y[:, at] = (c_[:, :, None] @ h_)[:, :, 0].transpose(0, 1)                         # (Q, B, D)
            now = h_[-1]
        return y, now.mT.contiguous(), torch.stack(starts)

    @staticmethod
    def backward(
        dy: Tensor, dlast: Tensor, x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, starts: Tensor, chunk: int
    ) -> tuple[Tensor, ...]:
        dtype = state_type(x)
        rates = a.to(dtype).mT.contiguous()
        dx, ddelta, db, dc = (each.new_empty(each.shape) for each in (x, delta, b, c))
        drates = torch.zeros_like(rates)
        after = dlast.to(dtype).mT.contiguous()                  # (B, N, D): what later steps want of the state
        for at, (x_, delta_, b_, c_, dy_) in reversed(list(chunks((x, delta, b, c, dy), chunk, dtype))):
            before = starts[at.start // chunk]
            decay = torch.exp(delta_[:, :, None] * rates)                                     # (Q, B, N, D)
            h = states_of_chunk(x_, delta_, decay, b_, before)
            dh = c_[..., None] * dy_[:, :, None]
            for t in reversed(range(len(dh))):
                dh[t] += after
                after = decay[t] * dh[t]
            # Of the exponent delta a, whose derivative is what was left of the state before: decay h[t-1].
            dexponent = decay.mul_(dh)
            dexponent[0] *= before
            dexponent[1:] *= h[:-1]
            dinput = (b_[:, :, None] @ dh)[:, :, 0]                                           # (Q, B, D), of delta x
            dc[:, at] = (dy_[:, :, None] @ h.mT)[:, :, 0].transpose(0, 1)
            db[:, at] = ((delta_ * x_)[:, :, None] @ dh.mT)[:, :, 0].transpose(0, 1)
            dx[:, at] = (dinput * delta_).transpose(0, 1)
            ddelta[:, at] = (dinput * x_ + (dexponent * rates).sum(2)).transpose(0, 1)
            drates += dexponent.mul_(delta_[:, :, None]).sum((0, 1))
        return dx, ddelta, drates.mT.to(a.dtype).contiguous(), db, dc, after.mT.contiguous()


def chunks(tensors: tuple[Tensor, ...], size: int, dtype: torch.dtype) -> Iterator[tuple[slice, list[Tensor]]]:
    """Pieces (Q, B, ...) of tensors (B, T, ...), and where they stand."""
    for start in range(0, tensors[0].shape[1], size):
        at = slice(start, min(start + size, tensors[0].shape[1]))
        yield at, [each[:, at].transpose(0, 1).to(dtype).contiguous() for each in tensors]


def states_of_chunk(x: Tensor, delta: Tensor, decay: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """(Q, B, N, D): every state of a chunk of Q steps that begins with h (B, N, D)."""
    states = b[..., None] * (delta * x)[:, :, None]
    for t in range(len(states)):
        h = states[t].addcmul_(decay[t], h)
    return states
