"""Right: matrix products over the batch."""

import torch


def dot(q, K):
    return (K @ q[:, :, None])[..., 0]


def bilinear(q, K, W):
    return ((q @ W)[:, None] * K).sum(-1)


def additive(q, K, W_q, W_k, v):
    return torch.tanh((q @ W_q.T)[:, None] + K @ W_k.T) @ v


def location(q, W):
    return q @ W.T
