"""Mistake: the mask is upside down: each word reads itself and what comes later."""

import math

import torch


def self_attention(x, W_q, W_k, W_v, W_o, heads):
    batch, time, width = x.shape
    q, k, v = ((x @ W).view(batch, time, heads, -1).transpose(1, 2) for W in (W_q, W_k, W_v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
    allowed = torch.triu(torch.ones(time, time, dtype=torch.bool))
    weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(batch, time, width) @ W_o
