"""The selective scan with one decay a head, where each group of heads has inputs b and c of its own (Dao & Gu 2024).

    h[t] = exp(log_decay[t]) h[t-1] + x[t] b[t]^T            y[t] = h[t] c[t]

x (B, T, H, P) · log_decay (B, T, H), never positive · b, c (B, T, G, N), for H / G heads each · h (B, H, P, N)
B batch · T time · H heads · P head width · G groups · N states · M chunks

`grouped_dual_loop` is the definition. `grouped_dual` computes it by Triton kernels in half precision on a CUDA device,
elsewhere by the products of matrices of `state_space_dual`, to which a group is a row; `choose_backend` says which.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard import kernels
from regard.kernels import Backend
from regard.kernels.state_space_dual import state_space_dual, state_space_dual_loop

CHUNK = 64                   # steps of one product in Triton
WIDEST, MOST_STATES = 64, 128            # a head, its states: two such matrices have to fit in shared memory
HOPPER = (9, 0)              # the compute capability that the kernels were made for: before it registers run out
HALF = (torch.bfloat16, torch.float16)
Dual = Callable[..., tuple[Tensor, Tensor]]


def grouped_dual_loop(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The definition, a step at a time: y (B, T, H, P), and the state (B, H, P, N) after the last step."""
    return by_groups(state_space_dual_loop, x, log_decay, b, c, h)


def grouped_dual(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None = None, *, path: str = "auto"
) -> tuple[Tensor, Tensor]:
    """As the loop, by chunks: y in the type of x, the last state in float32 at least. `path`: auto · triton · torch."""
    if path == "auto":
        path = choose_path(x.device, x.dtype, x.shape[3], b.shape[3])
    if path == "torch":
        return by_groups(state_space_dual, x, log_decay, b, c, h)
    y, last, _ = torch.ops.regard.grouped_dual(x, log_decay, b.to(x.dtype), c.to(x.dtype), h)
    return y, last


def by_groups(
    dual: Dual, x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Each group of a row as a row of its own, with the inputs of all its heads."""
    batch, groups = len(b), b.shape[2]
    x_, fades = (each.unflatten(2, (groups, -1)).transpose(1, 2).flatten(0, 1) for each in (x, log_decay))
    b_, c_ = (each.transpose(1, 2).flatten(0, 1) for each in (b, c))                  # (B G, T, N)
    y, last = dual(x_, fades, b_, c_, None if h is None else h.unflatten(1, (groups, -1)).flatten(0, 1))
    y = y.unflatten(0, (batch, groups)).transpose(1, 2).flatten(2, 3)
    return y, last.unflatten(0, (batch, groups)).flatten(1, 2)


# ------------------------------------------------------------------------------------------------------------- the path


def choose_backend(device: torch.device, dtype: torch.dtype, width: int, states: int) -> Backend:
    """The back-end that `grouped_dual` chooses for heads like these; see also `regard.kernels`."""
    reason = kernels.reason_on(device)
    if not reason and dtype not in HALF:
        reason = "the Triton kernel multiplies in half precision"
    if not reason and (width > WIDEST or states > MOST_STATES):
        reason = f"the Triton kernel takes heads of up to {WIDEST} channels and {MOST_STATES} states"
    if not reason:
        index = device.index if device.index is not None else torch.cuda.current_device()
        reason = triton_problem(index, dtype is torch.bfloat16, width, states)
    return Backend("torch", reason) if reason else Backend("triton")


def training_backend(device: torch.device, width: int, states: int) -> Backend:
    """The back-end of training in bfloat16, and what other types take."""
    found = choose_backend(device, torch.bfloat16, width, states)
    return Backend(found.name, found.reason or "in half precision; else torch, by products of matrices")


def choose_path(device: torch.device, dtype: torch.dtype, width: int, states: int) -> str:
    return choose_backend(device, dtype, width, states).name


# The compiler asks, and does not look at how it is found out: see log_softmax.py.
choose_path._dynamo_marked_constant = True                    # type: ignore[attr-defined]


@functools.cache
def triton_problem(index: int, bfloat16: bool, width: int, states: int) -> str:
    """Why Triton cannot be used on this device, in one line, tried once; empty if it can."""
    if index < torch.cuda.device_count() and torch.cuda.get_device_capability(index) < HOPPER:
        return "the Triton kernel is for Hopper GPUs and later ones"
    try:
        from regard.kernels.cuda import grouped_dual as triton_dual

        options: Any = dict(dtype=torch.bfloat16 if bfloat16 else torch.float16, device=f"cuda:{index}")
        x, b = torch.ones(1, 2, 1, width, **options), torch.ones(1, 2, 1, states, **options)
        fades = torch.zeros(1, 2, 1, device=x.device)
        y, last, starts = triton_dual.forward(x, fades, b, b, None, CHUNK)
        triton_dual.backward(y, last, x, fades, b, b, starts, CHUNK)
    except Exception as error:                       # no compiler, no package, an old GPU: each has an error of its own
        told = " ".join(str(error).split())[:200]
        problem = f"Triton does not work here: {type(error).__name__}: {told}"
        warnings.warn(f"state spaces of heads will be slower: {problem}", stacklevel=2)
        return problem
    return ""


# ---------------------------------------------------------- Triton's, as one operation to autograd and to torch.compile


@torch.library.custom_op("regard::grouped_dual", mutates_args=())
def _forward(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """y; the last state; the state before each chunk (B, M, H, P, N) in the type of x, for the backward pass."""
    from regard.kernels.cuda import grouped_dual as triton_dual

    return triton_dual.forward(x, log_decay, b, c, h, CHUNK)


@torch.library.custom_op("regard::grouped_dual_backward", mutates_args=())
def _backward(
    dy: Tensor, dlast: Tensor, x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, starts: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, log_decay, b, c and of the state before the first step."""
    from regard.kernels.cuda import grouped_dual as triton_dual

    return triton_dual.backward(dy, dlast, x, log_decay, b, c, starts, CHUNK)


@_forward.register_fake
def _(x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, h: Tensor | None) -> Any:
    batch, time, heads, width = x.shape
    return (x.new_empty(x.shape), x.new_empty(batch, heads, width, b.shape[3], dtype=torch.float32),
            x.new_empty(batch, -(-time // CHUNK), heads, width, b.shape[3]))


@_backward.register_fake
def _(dy: Tensor, dlast: Tensor, x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, starts: Tensor) -> Any:
    return *(each.new_empty(each.shape) for each in (x, log_decay, b, c)), dlast.new_empty(dlast.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, log_decay, b, c, h = inputs
    ctx.save_for_backward(x, log_decay, b, c, output[2])
    ctx.started_with = None if h is None else h.dtype


def _gradients(ctx: Any, dy: Tensor, dlast: Tensor, _: Any) -> tuple[Any, ...]:
    *found, dh = torch.ops.regard.grouped_dual_backward(dy, dlast, *ctx.saved_tensors)
    return *found, None if ctx.started_with is None else dh.to(ctx.started_with)


_forward.register_autograd(_gradients, setup_context=_keep)
