"""Norms: standardise each vector's entries, then scale them by learned amounts.

    layer     n = (x - mean x) / sqrt(var x + eps)           y = n * w, or n * w + b
    rms       n = x / sqrt(mean x^2 + eps)                   y = n * w

torch's own define them. The backward pass needs n. torch recomputes it from a saved x; but the next layer saves y
anyway and n = y / w, so x need not be saved. So compiled training in half precision saves a tenth of a Transformer's
memory. For that w must not be zero; there it is LEAST, which changes y by no more than rounding changes other entries.
R rows · D width
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST = 2.0**-14               # of a scale that is divided by


def layer_norm(x: Tensor, weight: Tensor, eps: float, bias: Tensor | None = None) -> Tensor:
    if bias is None and sparing(x):                                       # n = y / w holds without a bias alone
        return normed(x, weight, eps, centred=True)
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    if sparing(x):
        return normed(x, weight, eps, centred=False)
    return F.rms_norm(x.to(weight.dtype), weight.shape, weight, eps)      # as autocast has it for the other, not this


def sparing(x: Tensor) -> bool:
    """True if x is not saved: only in compiled code, as in many small operations that would be slow."""
    kind = x.device.type
    return torch.compiler.is_compiling() and torch.is_grad_enabled() and torch.is_autocast_enabled(kind)


def why_not(compiled: bool, bfloat16: bool) -> str:
    """Why a norm saves its input in training; empty where it does not."""
    return "training is in float32" if not bfloat16 else "" if compiled else "training is not compiled"


def normed(x: Tensor, weight: Tensor, eps: float, *, centred: bool, dtype: torch.dtype | None = None) -> Tensor:
    """y, in the precision of what comes next."""
    y: Tensor = _Normed.apply(x, weight, eps, centred, dtype or torch.get_autocast_dtype(x.device.type))
    return y


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(                                                                      # type: ignore[override]
        ctx: Any, x: Tensor, weight: Tensor, eps: float, centred: bool, dtype: torch.dtype
    ) -> Tensor:
        wide = x.float()
        if centred:
            wide = wide - wide.mean(-1, keepdim=True)
        inverse = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()                # (..., 1)
        y = (wide * inverse * away_from_zero(weight)).to(dtype)
        ctx.save_for_backward(y, inverse, weight)
        ctx.centred, ctx.dtype = centred, x.dtype
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None, None, None]:     # type: ignore[override]
        y, inverse, weight = ctx.saved_tensors
        scale = away_from_zero(weight)
        g, n = g.float(), y.float() / scale
        dn = g * scale
        dx = dn - n * (dn * n).mean(-1, keepdim=True)
        if ctx.centred:
            dx = dx - dn.mean(-1, keepdim=True)
        dw = (g * n).flatten(0, -2).sum(0)
        return (inverse * dx).to(ctx.dtype), dw.to(weight.dtype), None, None, None


def away_from_zero(weight: Tensor) -> Tensor:
    weight = weight.float()
    return torch.where(weight.abs() < LEAST, LEAST, weight)
