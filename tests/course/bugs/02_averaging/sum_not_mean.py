"""Mistake: the sum, never divided by the length."""

import torch


def average(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return torch.where(real[..., None], x, torch.zeros_like(x)).sum(1)
