"""Mistake: zeros are put behind the text, not before it, so that a window begins at its word."""

import torch
import torch.nn.functional as F


def windows(x, n):
    padded = F.pad(x, (0, 0, 0, n - 1))
    return torch.cat([padded[:, j:j + x.shape[1]] for j in range(n)], -1)
