"""Right: a position at a time."""

import torch


def windows(x, n):
    batch, time, width = x.shape
    out = torch.zeros(batch, time, n * width, dtype=x.dtype)
    for t in range(time):
        for j in range(n):
            source = t - n + 1 + j
            if source >= 0:
                out[:, t, j * width:(j + 1) * width] = x[:, source]
    return out
