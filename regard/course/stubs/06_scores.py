"""Exercise 6. Scores: four ways to say how well a key matches a query.   B batch · S keys · D, E, H widths

    dot        e_i = q · k_i
    bilinear   e_i = q^T W k_i
    additive   e_i = v · tanh(W_q q + W_k k_i)
    location   e_i = (W q)_i          the query alone says at which place to look; no key is read

A score is the number before the softmax: any real number.
"""

from __future__ import annotations

from torch import Tensor


def dot(q: Tensor, K: Tensor) -> Tensor:
    """Return the scores of each row's keys.   (B, D), (B, S, D) -> (B, S)"""
    raise NotImplementedError


def bilinear(q: Tensor, K: Tensor, W: Tensor) -> Tensor:
    """Return the scores of each row's keys.   (B, D), (B, S, E), (D, E) -> (B, S)"""
    raise NotImplementedError


def additive(q: Tensor, K: Tensor, W_q: Tensor, W_k: Tensor, v: Tensor) -> Tensor:
    """Return the scores of each row's keys.   (B, D), (B, S, E), (H, D), (H, E), (H,) -> (B, S)"""
    raise NotImplementedError


def location(q: Tensor, W: Tensor) -> Tensor:
    """Return the scores of the S places.   (B, D), (S, D) -> (B, S)"""
    raise NotImplementedError
