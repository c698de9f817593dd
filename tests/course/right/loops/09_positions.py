"""Right: a number at a time."""

import math

import torch


def sinusoids(length, width, first=0):
    rows = []
    for t in range(first, first + length):
        row = []
        for i in range(width // 2):
            angle = t / 10000 ** (2 * i / width)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


def add_positions(x, first=0):
    out = x.clone()
    table = sinusoids(x.shape[1], x.shape[2], first).to(x.dtype)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            out[b, t] = x[b, t] + table[t]
    return out
