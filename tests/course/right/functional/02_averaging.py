"""Right: weights of 1 / length, and one einsum."""

import torch


def average(x, lengths):
    places = torch.arange(x.shape[1], device=x.device)
    weights = (places[None] < lengths[:, None]) / lengths[:, None].clamp_min(1)
    clean = torch.where(weights[..., None] > 0, x, torch.zeros_like(x))
    return torch.einsum("bt,btd->bd", weights.to(x.dtype), clean)
