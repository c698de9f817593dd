"""Mistake: (B, T, D) is viewed as (B, heads, T, D / heads), not transposed: heads get pieces of other positions."""

import math

import torch


def self_attention(x, W_q, W_k, W_v, W_o, heads):
    batch, time, width = x.shape
    q, k, v = ((x @ W).reshape(batch, heads, time, width // heads) for W in (W_q, W_k, W_v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
    later = torch.ones(time, time, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(-1)
    return (weights @ v).reshape(batch, time, width) @ W_o
