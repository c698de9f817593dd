"""Mistake: masked weights are set to zero after the softmax: the others do not add up to 1."""

import math


def attention(q, K, V, mask=None):
    weights = (q @ K.transpose(1, 2) / math.sqrt(q.shape[-1])).softmax(-1)
    if mask is not None:
        weights = weights * mask
    return weights @ V
