"""Attention, the one function: A(q, K, V) = sum_i softmax_i(e(q, k_i)) v_i.

Bahdanau et al. 2014; Vaswani et al. 2017, section 3.2.   B batch · H heads · T queries · S keys · K head width

This is the only place where a softmax over keys is written as an equation; `kernels/` computes the same sooner. When
somebody is watching, the weights are computed by the equation, and the output comes from the kernel all the same.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.kernels.attention import CAUSAL as CAUSAL
from regard.kernels.attention import Mask, attention, in_full, shared
from regard.kernels.dropout import drop
from regard.layers.scores import LowRank, ProductScore, Score, plain
from regard.watching import Edit, watching


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
    output: Tensor | None = None,            # y, where a kernel has computed it already: then the weights are shown
    seen_by: object = None,
    **about: Any,                            # told to a watcher beside the weights
) -> Tensor:                                 # (B, H, T, K')
    """Each query reads the values whose keys it matches."""
    y = by_kernel(q, k, v, mask, bias, softcap, score, dropout) if output is None else output
    recorder = watching()
    if recorder is None:
        return y
    e = scores_of(q, k, mask, bias, softcap, score)
    alpha = shares(e, mask)
    if recorder.closely:
        alpha, y = as_edited(recorder.edit, seen_by, e, alpha, y, shared(v, q))
        about |= row_of_everything(q, k, v, mask, bias, beams)
        about |= dict(softcap=softcap, score=score, scores=row_by_row(e.detach(), beams),
                      output=row_by_row(y.detach(), beams))
    recorder.add(seen_by, "weights", row_by_row(alpha, beams), **about)
    return y


def by_kernel(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | Mask | None = None, bias: Tensor | None = None,
    softcap: float = 0.0, score: Score | None = None, dropout: float = 0.0,
) -> Tensor:
    """The output alone: by a fused kernel where scores are products, else by the equation, which no kernel has."""
    if softcap or not (score is None or isinstance(score, ProductScore)):
        return drop(weights(q, k, mask, bias, softcap, score), dropout) @ shared(v, q)
    scale = None
    if isinstance(score, LowRank):                          # its keys differ from head to head: none can share them
        k, v = shared(k, q), shared(v, q)
    if isinstance(score, ProductScore):
        q, k, scale = score.factors(q, k)
    return attention(q, k, v, mask, bias, scale=scale, dropout=dropout)


def weights(
    q: Tensor, k: Tensor, mask: Tensor | Mask | None = None, bias: Tensor | None = None, softcap: float = 0.0,
    score: Score | None = None,
) -> Tensor:
    """(B, H, T, S): how much each query reads of each key. Rows sum to one; a row that may read nothing is zero."""
    return shares(scores_of(q, k, mask, bias, softcap, score), mask)


def shares(scores: Tensor, mask: Tensor | Mask | None) -> Tensor:
    alpha = scores.softmax(-1)
    return alpha if mask is None else torch.nan_to_num(alpha, nan=0.0)


def scores_of(
    q: Tensor, k: Tensor, mask: Tensor | Mask | None = None, bias: Tensor | None = None, softcap: float = 0.0,
    score: Score | None = None,
) -> Tensor:
    """(B, H, T, S): what enters the softmax, -inf where a query may not read."""
    scores = (score or plain)(q, shared(k, q))
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    allowed = in_full(mask, q, k)
    return scores if allowed is None else scores.masked_fill(~allowed, -math.inf)


def attend_by_definition(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | Mask | None = None, bias: Tensor | None = None,
    softcap: float = 0.0, score: Score | None = None,
) -> Tensor:
    """The definition for every kernel: the weights, then the weighted sum."""
    return weights(q, k, mask, bias, softcap, score) @ shared(v, q)


def is_edited() -> bool:
    """True if a watcher changes scores: attention then runs by `attend` alone, which obeys."""
    recorder = watching()
    return recorder is not None and recorder.edit is not None


def side_by_side(x: Tensor, beams: int) -> Tensor:
    """(B k, H, T, ...) as (B, H, k T, ...): k rows beside one another, as they read the same keys."""
    return x if beams == 1 else x.unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)


def row_by_row(x: Tensor, beams: int) -> Tensor:
    """(B, H, k T, ...) as (B k, H, T, ...): each of the k rows that stood side by side by itself."""
    return x if beams == 1 else x.unflatten(2, (beams, -1)).transpose(1, 2).flatten(0, 1)


# ------------------------------------------------------------------------------------------------ for a watcher


def as_edited(
    edit: Edit | None, layer: object, e: Tensor, alpha: Tensor, y: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """Weights and output, others in the row whose scores the watcher changed; elsewhere the kernel's, to the bit."""
    if edit is None or edit.layer is not layer:
        return alpha, y
    row, edit.passed = edit.row - edit.passed, edit.passed + e.shape[2]
    if not 0 <= row < e.shape[2]:
        return alpha, y
    new = edit.scores.to(e)
    if torch.equal(e[0, edit.head, row], new):
        return alpha, y
    alpha, y = alpha.clone(), y.clone()
    alpha[0, edit.head, row] = torch.nan_to_num(new.softmax(-1), nan=0.0)
    y[0, edit.head, row] = (alpha[0, edit.head, row] @ v[0, edit.head]).to(y.dtype)
    return alpha, y


def row_of_everything(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | Mask | None, bias: Tensor | None, beams: int
) -> dict[str, Tensor | None]:
    """The inputs of the weights, for each row by itself; copied, as a cache is written over."""

    def of_all(x: Tensor | None) -> Tensor | None:
        return None if x is None else row_by_row(x.detach().broadcast_to(*q.shape[:3], k.shape[2]), beams)

    return dict(q=row_by_row(q.detach().clone(), beams), k=k.detach().repeat_interleave(beams, 0),
                v=v.detach().repeat_interleave(beams, 0), allowed=of_all(in_full(mask, q, k)), bias=of_all(bias))
