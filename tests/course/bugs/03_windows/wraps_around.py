"""Mistake: torch.roll brings the end of the text before its beginning."""

import torch


def windows(x, n):
    return torch.cat([x.roll(shifts, 1) for shifts in range(n - 1, -1, -1)], -1)
