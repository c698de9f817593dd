"""Right: scores, mask, softmax, average."""

import math

import torch


def attention(q, K, V, mask=None):
    scores = q @ K.transpose(1, 2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, -1)
    if mask is not None:
        weights = torch.nan_to_num(weights, nan=0.0)
    return weights @ V
