"""Norms: standardise each vector's entries, then scale them by learned amounts.

    layer     y = (x - mean x) / sqrt(var x + eps) * w
    rms       y = x / sqrt(mean x^2 + eps) * w
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.kernels.norm import layer_norm, rms_norm

NORMS = ("layer", "rms")


class LayerNorm(nn.LayerNorm):
    saves_output = True                # the backward pass needs the output alone: kernels/norm.py

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.weight, self.eps)


class RMSNorm(nn.RMSNorm):
    eps: float
    saves_output = True

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)


def make_norm(kind: str, width: int) -> nn.Module:
    return LayerNorm(width, bias=False) if kind == "layer" else RMSNorm(width, eps=1e-5)
