"""Mistake: what may be read is hidden, and what may not is read."""

import math

import torch


def attention(q, K, V, mask=None):
    scores = q @ K.transpose(1, 2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return torch.nan_to_num(scores.softmax(-1)) @ V
