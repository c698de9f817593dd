"""Norms: standardise each vector's entries, then scale them by learned amounts.

    layer     y = (x - mean x) / sqrt(var x + eps) * w, and + b with a bias
    rms       y = x / sqrt(mean x^2 + eps) * w
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.norm import layer_norm, rms_norm

NORMS = ("layer", "rms")
EPS = 1e-5                         # added below the root, where it keeps vectors near zero as they are


class LayerNorm(nn.LayerNorm):
    saves_output = True                # the backward pass needs the output alone: kernels/norm.py

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.weight, self.eps, self.bias)


class RMSNorm(nn.RMSNorm):
    eps: float
    saves_output = True

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)


class GroupedRMSNorm(RMSNorm):
    """The RMS norm of each of several equally large groups of channels; of one group, the RMS norm."""

    def __init__(self, width: int, groups: int, *, eps: float = EPS):
        super().__init__(width, eps=eps)
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        if self.groups == 1:
            return super().forward(x)
        grouped = x.unflatten(-1, (self.groups, -1)).to(self.weight.dtype)            # (..., G, D / G)
        return F.rms_norm(grouped, grouped.shape[-1:], None, self.eps).flatten(-2) * self.weight


def make_norm(kind: str, width: int, *, eps: float = EPS, bias: bool = False) -> nn.Module:
    return LayerNorm(width, eps=eps, bias=bias) if kind == "layer" else RMSNorm(width, eps=eps)
