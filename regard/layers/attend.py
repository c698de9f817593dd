"""Attention, the one function: A(q, K, V) = sum_i softmax_i(e(q, k_i)) v_i.

Bahdanau et al. 2014; Vaswani et al. 2017, section 3.2.   B batch · H heads · T queries · S keys · K head width

This is the only place where a softmax over keys is written. It picks the kernel, and when somebody is
watching it also works the weights out in the open; the output comes from the usual kernel all the same.
"""

from __future__ import annotations

import math
from enum import Enum

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.contract import watching


class Mask(Enum):
    CAUSAL = "each position reads itself and every earlier one"


CAUSAL = Mask.CAUSAL


def attend(
    q: Tensor,                               # (B, H, T, K)
    k: Tensor,                               # (B, H, S, K)
    v: Tensor,                               # (B, H, S, K')
    *,
    mask: Tensor | Mask | None = None,       # bool, True where a query may read, broadcast to (B, H, T, S)
    dropout: float = 0.0,
    seen_by: object = None,
) -> Tensor:                                 # (B, H, T, K')
    """Each query reads the values whose keys it matches."""
    recorder = watching()
    if recorder is not None:
        recorder.add(seen_by, "weights", weights(q, k, mask))
    if mask is CAUSAL:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)


def weights(q: Tensor, k: Tensor, mask: Tensor | Mask | None = None) -> Tensor:
    """(B, H, T, S): how much each query reads of each key. Rows sum to one; a row that may read nothing is zero."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    allowed = causal_mask(q.shape[-2], k.shape[-2], q.device) if mask is CAUSAL else mask
    if allowed is None:
        return scores.softmax(-1)
    return torch.nan_to_num(scores.masked_fill(~allowed, -math.inf).softmax(-1), nan=0.0)


def attend_by_definition(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | Mask | None = None) -> Tensor:
    """What every kernel must equal: the weights, then the weighted sum."""
    return weights(q, k, mask) @ v


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """(T, S), True on and below the diagonal."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()
