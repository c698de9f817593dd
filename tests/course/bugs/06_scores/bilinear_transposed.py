"""Mistake: k^T W q in the place of q^T W k."""

import torch


def dot(q, K):
    return torch.einsum("bd,bsd->bs", q, K)


def bilinear(q, K, W):
    return torch.einsum("bse,ed,bd->bs", K, W, q)


def additive(q, K, W_q, W_k, v):
    return torch.tanh((q @ W_q.T).unsqueeze(1) + K @ W_k.T) @ v


def location(q, W):
    return q @ W.T
