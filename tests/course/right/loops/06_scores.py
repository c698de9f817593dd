"""Right: a key at a time."""

import torch


def each(q, K, score):
    return torch.stack([torch.stack([score(q[b], K[b, i]) for i in range(K.shape[1])]) for b in range(q.shape[0])])


def dot(q, K):
    return each(q, K, lambda query, key: (query * key).sum())


def bilinear(q, K, W):
    return each(q, K, lambda query, key: query @ W @ key)


def additive(q, K, W_q, W_k, v):
    return each(q, K, lambda query, key: v @ torch.tanh(W_q @ query + W_k @ key))


def location(q, W):
    return torch.stack([W @ row for row in q])
