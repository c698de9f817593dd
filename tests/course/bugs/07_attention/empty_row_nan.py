"""Mistake: a query that may read nothing gets the softmax of minus infinities, which is not a number."""

import math


def attention(q, K, V, mask=None):
    scores = q @ K.transpose(1, 2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ V
