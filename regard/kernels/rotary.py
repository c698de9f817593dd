"""Rotations of pairs of channels: (a, b) becomes (a cos - b sin, a sin + b cos).

On a CPU a pair is a complex number, and one product turns it.   B batch · T time · K head width
"""

from __future__ import annotations

import torch
from torch import Tensor


def by_definition(x: Tensor, angles: Tensor) -> Tensor:
    """x (..., K), each pair of neighbouring channels turned by its angle (..., K/2)."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """x (B, T, ..., K) turned by the angles (..., T, K/2) of its positions."""
    angles = angles.view(*angles.shape[:-1], *(1,) * (x.ndim - 3), angles.shape[-1])        # (..., T, 1.., K/2)
    if x.is_cuda or x.dtype not in (torch.float32, torch.float64) or torch.compiler.is_compiling():
        return by_definition(x, angles)
    if any(step % 2 for step in (x.storage_offset(), *x.stride()[:-1])):              # beside heads of an odd width
        x = x.contiguous()
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)
