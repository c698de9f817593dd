"""Right: a query at a time, from the definition."""

import math

import torch


def attention(q, K, V, mask=None):
    batch, queries, width = q.shape
    out = torch.zeros(batch, queries, V.shape[2], dtype=V.dtype)
    for b in range(batch):
        for t in range(queries):
            readable = [s for s in range(K.shape[1]) if mask is None or mask[b, t, s]]
            if not readable:
                continue
            scores = [float(q[b, t] @ K[b, s]) / math.sqrt(width) for s in readable]
            top = max(scores)
            shares = [math.exp(score - top) for score in scores]
            for s, share in zip(readable, shares, strict=True):
                out[b, t] += share / sum(shares) * V[b, s]
    return out
