"""Attention whose scores are products: y = softmax(scale q k^T + bias) v, by the quickest kernel that torch has.

`layers/attend.py` has the equation, for every score; this computes the output alone, and keeps no weights where it can.
B batch · H heads · T queries · S keys · K head width
"""

from __future__ import annotations

import math
from enum import Enum

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.dropout import drop

PIECE = 256                    # positions of a prompt that are read at once, at least


class Mask(Enum):
    CAUSAL = "each position reads itself and every earlier one"


CAUSAL = Mask.CAUSAL


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | Mask | None = None, bias: Tensor | None = None, *,
    scale: float | None = None, dropout: float = 0.0,
) -> Tensor:
    """(B, H, T, K'): what each query reads. `mask` is True where a query may read; `scale` is 1 / sqrt K by default."""
    if dropout and q.device.type == "cpu" and not torch.compiler.is_compiling():
        return with_dropout(q, k, v, mask, bias, scale, dropout)
    grouped = k.shape[1] != q.shape[1]
    if mask is CAUSAL and bias is None:
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=dropout, scale=scale, enable_gqa=grouped)
    allowed = in_full(mask, q, k)
    if bias is not None:
        allowed = bias if allowed is None else bias.masked_fill(~allowed, -math.inf)
        allowed = allowed.to(q.dtype)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, dropout_p=dropout, scale=scale, enable_gqa=grouped)


def with_dropout(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | Mask | None, bias: Tensor | None, scale: float | None,
    dropout: float,
) -> Tensor:
    """For a CPU, where torch has no kernel with dropout and writes the weights out too, but draws one number at a time.

    Forward and backward take two thirds of torch's time. Adding in place saves nothing for the backward pass.
    """
    scores = q * (q.shape[-1] ** -0.5 if scale is None else scale) @ shared(k, q).transpose(-1, -2)
    if bias is not None:
        scores += bias
    allowed, nothing = in_full(mask, q, k), None
    if isinstance(mask, Tensor):                            # a row of -inf has no softmax: where nothing may be read,
        nothing = ~mask.any(-1, keepdim=True)               # everything is, and then comes to zero
        allowed = mask | nothing
    if allowed is not None:
        scores += torch.zeros_like(allowed, dtype=scores.dtype).masked_fill(~allowed, -math.inf)
    y = drop(scores.softmax(-1), dropout) @ shared(v, q)
    return y if nothing is None else y.masked_fill(nothing, 0.0)


def shared(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values for every head of the queries: neighbouring heads read the same ones (grouped queries)."""
    groups = q.shape[1] // x.shape[1]
    return x if groups == 1 else x.repeat_interleave(groups, 1)


def in_full(mask: Tensor | Mask | None, q: Tensor, k: Tensor) -> Tensor | None:
    return causal_mask(q.shape[-2], k.shape[-2], q.device) if mask is CAUSAL else mask       # type: ignore[return-value]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """(T, S), True on and below the diagonal."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()


def prompt_piece(x: Tensor) -> int:
    """Positions of a prompt x that are read at once. A GPU reads more of them: each piece costs it launches."""
    return PIECE if x.device.type == "cpu" else 8 * PIECE
