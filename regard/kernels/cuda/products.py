"""Products of large matrices in training on a GPU: by the fastest algorithm of cuBLAS for each shape, with GELU in its
epilogue.

torch uses cuBLAS's heuristic, which is often not the fastest algorithm; here each shape is autotuned once, on
its own matrices (cublas.py). A feed-forward layer's GELU and its slope are worked out where the products leave their
numbers, so that the widest tensor of a block is read twice less. And what is made of one product, but read apart, as
queries, keys and values are, need not have its gradients concatenated first.

    product(a, b)                   a b
    feed_forward(x, up, down)       gelu(x up^T) down^T, GELU as GPT-2 has it
    parts(x, weight, sizes)         x weight^T, cut into parts of so many columns

Ordinary operations of torch define them; these take over where `can` says so.
N rows · D width in · E width out
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard import kernels
from regard.kernels.precision import product_dtype

LEAST = 2**34                  # multiplications from which a GPU takes longer than the host needs to ask
_ready = False                 # set by `prepare`; a compiled model looks at it, and nothing else


def prepare(device: torch.device, bfloat16: bool) -> None:
    """To be said before a model is trained: whether large products can be taken over here."""
    global _ready
    _ready = not why_not(device, bfloat16)


def why_not(device: torch.device, bfloat16: bool) -> str:
    """Why products are left to torch; empty where they are not."""
    if device.type != "cuda":
        return f"the tensors are on {device.type}"
    if not bfloat16:
        return "training is in float32"
    if kernels.reason_on(device):
        return kernels.reason_on(device)
    from regard.kernels.cuda.cublas import why_not as no_library

    return no_library(device)


def can(x: Tensor, weight: Tensor) -> bool:
    """True if x (..., D) times weight (E, D) is taken over: something large, in training, in half precision."""
    return (_ready and x.is_cuda and torch.is_grad_enabled() and torch.is_autocast_enabled("cuda")
            and x.numel() * weight.shape[0] >= LEAST and weight.shape[0] % 8 == 0 and weight.shape[1] % 8 == 0)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """As F.linear."""
    dtype = product_dtype(x)
    y = product(x.to(dtype).flatten(0, -2), weight.to(dtype).t()).unflatten(0, x.shape[:-1])
    return y if bias is None else y + bias.to(dtype)


def feed_forward(x: Tensor, up: Tensor, down: Tensor, keep: bool = True) -> Tensor:
    """gelu(x up^T) down^T; GELU's output is saved for the backward pass, or recomputed there."""
    dtype = product_dtype(x)
    y, _, _ = _feed_forward(x.to(dtype).flatten(0, -2), up.to(dtype), down.to(dtype), keep)
    return y.unflatten(0, x.shape[:-1])


def parts(x: Tensor, weight: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
    """F.linear(x, weight).split(sizes, -1)."""
    dtype = product_dtype(x)
    found = _Parts.apply(x.to(dtype).flatten(0, -2), weight.to(dtype), sizes)
    return tuple(each.unflatten(0, x.shape[:-1]) for each in found)


def into(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a b, without gradients, written into memory that is there."""
    if _ready and a.is_cuda and a.dtype == torch.bfloat16 and a.numel() * b.shape[1] >= LEAST:
        return _cublas().product(a, b, out)                                           # type: ignore[no-any-return]
    return torch.mm(a, b, out=out)


# --------------------------------------------------------------------------------- as operations of torch's kind


@torch.library.custom_op("regard::product", mutates_args=())
def product(a: Tensor, b: Tensor) -> Tensor:
    """(N, D) times (D, E)."""
    return _cublas().product(a, b) if a.is_cuda else a @ b


def product_gelu(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """gelu(a b), and a b itself."""
    if a.is_cuda:
        return _cublas().product_gelu(a, b)                                           # type: ignore[no-any-return]
    pre = a @ b
    return F.gelu(pre, approximate="tanh"), pre


@torch.library.custom_op("regard::product_slope", mutates_args=())
def product_slope(a: Tensor, b: Tensor, pre: Tensor) -> Tensor:
    """a b times the slope of GELU at `pre`."""
    if a.is_cuda:
        return _cublas().product_slope(a, b, pre)
    return (a @ b) * slope(pre)


TWICE = 2 * math.sqrt(2 / math.pi)


def gelu(x: Tensor) -> Tensor:
    """x (1 + tanh y) / 2 with y = sqrt(2 / pi) (x + 0.044715 x^3); (1 + tanh y) / 2 is sigmoid(2 y), which a compiled
    kernel has much sooner."""
    return x * torch.sigmoid(TWICE * (x + 0.044715 * x * x * x))


def slope(x: Tensor) -> Tensor:
    """The derivative of `gelu`."""
    share = torch.sigmoid(TWICE * (x + 0.044715 * x * x * x))
    return share + x * share * (1 - share) * TWICE * (1 + 3 * 0.044715 * x * x)


@torch.library.custom_op("regard::feed_forward", mutates_args=())
def _feed_forward(x: Tensor, up: Tensor, down: Tensor, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    act, pre = product_gelu(x, up.t())
    return product(act, down.t()), pre, act if keep else act.new_empty(0)


@torch.library.custom_op("regard::product_parts_gradients", mutates_args=())
def _gradients_of_parts(gradients: list[Tensor], x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and of the weight, from those of the parts."""
    weights = weight.split([each.shape[1] for each in gradients])
    if x.is_cuda:
        return _cublas().sum_of_products(gradients, weights), _cublas().products_in_rows(gradients, x)
    return (torch.stack([g @ w for g, w in zip(gradients, weights, strict=True)]).sum(0),
            torch.cat([g.t() @ x for g in gradients]))


@_gradients_of_parts.register_fake
def _(gradients: list[Tensor], x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


class _Parts(torch.autograd.Function):
    """Not an operation like the others: those do not give parts of one tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:   # type: ignore[override]
        ctx.save_for_backward(x, weight)
        return product(x, weight.t()).split(sizes, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:        # type: ignore[override]
        return *_gradients_of_parts(list(gradients), *ctx.saved_tensors), None


@product.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


@product_slope.register_fake
def _(a: Tensor, b: Tensor, pre: Tensor) -> Tensor:
    return torch.empty_like(pre)


@_feed_forward.register_fake
def _(x: Tensor, up: Tensor, down: Tensor, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    pre = x.new_empty(x.shape[0], up.shape[0])
    return x.new_empty(x.shape[0], down.shape[0]), pre, torch.empty_like(pre) if keep else x.new_empty(0)


def _keep_factors(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients_of_product(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    a, b = ctx.saved_tensors
    if b.stride(0) == 1:                                       # weights turned round: their gradient in their own order
        return product(g, b.t()), product(g.t(), a).t()
    return product(g, b.t()), product(a.t(), g)


def _keep_layer(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool], output: tuple[Tensor, ...]) -> None:
    _, pre, act = output
    ctx.mark_non_differentiable(pre, act)
    ctx.save_for_backward(*inputs[:3], pre, act)
    ctx.keep = inputs[3]


def _gradients_of_layer(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, None]:
    x, up, down, pre, act = ctx.saved_tensors
    if ctx.keep:
        dpre = product_slope(g, down, pre)
    else:                                                      # compiled, both of what `pre` gives are one kernel
        wide = pre.to(torch.promote_types(pre.dtype, torch.float32))
        dpre, act = (product(g, down) * slope(wide)).to(pre.dtype), gelu(wide).to(pre.dtype)
    return product(dpre, up), product(dpre.t(), x), product(g.t(), act), None


product.register_autograd(_gradients_of_product, setup_context=_keep_factors)
_feed_forward.register_autograd(_gradients_of_layer, setup_context=_keep_layer)


def _cublas() -> Any:
    from regard.kernels.cuda import cublas

    return cublas
