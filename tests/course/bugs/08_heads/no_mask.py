"""Mistake: there is no mask: each word reads the whole text, the future too."""

import math


def self_attention(x, W_q, W_k, W_v, W_o, heads):
    batch, time, width = x.shape
    q, k, v = ((x @ W).view(batch, time, heads, -1).transpose(1, 2) for W in (W_q, W_k, W_v))
    weights = (q @ k.transpose(-1, -2) / math.sqrt(width // heads)).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(batch, time, width) @ W_o
