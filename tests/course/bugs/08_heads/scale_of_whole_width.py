"""Mistake: the scores are divided by the square root of the whole width, not of a head's."""

import math

import torch


def self_attention(x, W_q, W_k, W_v, W_o, heads):
    batch, time, width = x.shape
    q, k, v = ((x @ W).view(batch, time, heads, -1).transpose(1, 2) for W in (W_q, W_k, W_v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(width)
    later = torch.ones(time, time, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(batch, time, width) @ W_o
