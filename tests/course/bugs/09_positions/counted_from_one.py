"""Mistake: the first position is 1, not 0."""

import torch


def sinusoids(length, width, first=0):
    t = torch.arange(first + 1, first + length + 1, dtype=torch.float64)[:, None]
    angles = t / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def add_positions(x, first=0):
    return x + sinusoids(x.shape[1], x.shape[2], first)
