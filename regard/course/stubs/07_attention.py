"""Exercise 7. Attention: a weighted average of the values, weighted by how well each key matches the query.

    A(q, K, V) = sum over i of softmax_i(q · k_i / sqrt(D)) v_i

`mask[b, t, s]` is True where query t may read key s. A key that may not be read has weight 0, and the other
weights still add up to 1. A query that may read nothing gets zeros.
B batch · T queries · S keys · D width of queries and keys · E width of values
"""

from __future__ import annotations

from torch import Tensor


def attention(q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return what each query reads.   (B, T, D), (B, S, D), (B, S, E), (B, T, S) -> (B, T, E)"""
    raise NotImplementedError
