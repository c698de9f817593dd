"""Attention, the one function: A(q, K, V) = sum_i softmax_i(e(q, k_i)) v_i.

Bahdanau et al. 2014; Vaswani et al. 2017, section 3.2.   B batch · H heads · T queries · S keys · K head width

This is the only place where a softmax over keys is written. It picks the kernel, and when somebody is
watching it also works the weights out in the open; the output comes from the usual kernel all the same.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.contract import watching
from regard.layers.scores import ProductScore, Score, plain


class Mask(Enum):
    CAUSAL = "each position reads itself and every earlier one"


CAUSAL = Mask.CAUSAL


def attend(
    q: Tensor,                               # (B, H, T, K)
    k: Tensor,                               # (B, H, S, K), or a divisor of H heads: each is then read by several
    v: Tensor,                               # (B, H, S, K'), as many heads as k
    *,
    mask: Tensor | Mask | None = None,       # bool, True where a query may read, broadcast to (B, H, T, S)
    bias: Tensor | None = None,              # added to the scores, broadcast to (B, H, T, S)
    softcap: float = 0.0,                    # scores are kept between -softcap and softcap; 0: as they are
    score: Score | None = None,              # e(q, k); None: q · k / sqrt K
    dropout: float = 0.0,
    beams: int = 1,                          # rows that stand side by side in T, as they read the same keys
    seen_by: object = None,
    **about: Any,                            # told to a watcher beside the weights
) -> Tensor:                                 # (B, H, T, K')
    """Each query reads the values whose keys it matches."""
    recorder = watching()
    if recorder is not None:
        recorder.add(seen_by, "weights", row_by_row(weights(q, k, mask, bias, softcap, score), beams), **about)
    if softcap or not (score is None or isinstance(score, ProductScore)):            # no kernel bends the scores
        return F.dropout(weights(q, k, mask, bias, softcap, score), dropout) @ shared(v, q)
    scale = None
    if isinstance(score, ProductScore):
        q, k, scale = score.factors(q, k)
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


def weights(
    q: Tensor, k: Tensor, mask: Tensor | Mask | None = None, bias: Tensor | None = None, softcap: float = 0.0,
    score: Score | None = None,
) -> Tensor:
    """(B, H, T, S): how much each query reads of each key. Rows sum to one; a row that may read nothing is zero."""
    scores = (score or plain)(q, shared(k, q))
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    allowed = in_full(mask, q, k)
    if allowed is None:
        return scores.softmax(-1)
    return torch.nan_to_num(scores.masked_fill(~allowed, -math.inf).softmax(-1), nan=0.0)


def attend_by_definition(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | Mask | None = None, bias: Tensor | None = None,
    softcap: float = 0.0, score: Score | None = None,
) -> Tensor:
    """What every kernel must equal: the weights, then the weighted sum."""
    return weights(q, k, mask, bias, softcap, score) @ shared(v, q)


def row_by_row(x: Tensor, beams: int) -> Tensor:
    """(B, H, k T, ...) as (B k, H, T, ...): each of the k rows that stood side by side by itself."""
    return x if beams == 1 else x.unflatten(2, (beams, -1)).transpose(1, 2).flatten(0, 1)


def shared(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values for every head of the queries: neighbouring heads read the same ones (grouped queries)."""
    groups = q.shape[1] // x.shape[1]
    return x if groups == 1 else x.repeat_interleave(groups, 1)


def in_full(mask: Tensor | Mask | None, q: Tensor, k: Tensor) -> Tensor | None:
    return causal_mask(q.shape[-2], k.shape[-2], q.device) if mask is CAUSAL else mask       # type: ignore[return-value]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """(T, S), True on and below the diagonal."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()
