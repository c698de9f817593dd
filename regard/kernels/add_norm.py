"""Adding and normalising, as a residual block does between its two parts: x + y, and that normalised.

    s = x + y            n = (s - mean s) / sqrt(var s + eps) * gain          (layer norm; without the mean: RMS norm)

In a step of generation on a GPU vectors are few and short: one Triton kernel does both, for launching two takes longer
than running them.
R rows · D width
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard import kernels

WIDEST = 8192                  # that one program holds
MOST_ROWS = 512


def by_definition(x: Tensor, y: Tensor | None, norm: nn.Module | None) -> tuple[Tensor, Tensor]:
    added = x if y is None else x + y
    return added, added if norm is None else norm(added)


def add_norm(x: Tensor, y: Tensor | None, norm: nn.Module | None) -> tuple[Tensor, Tensor]:
    """x + y (x alone without y), and norm(x + y) (x + y again without a norm)."""
    if norm is None or not can(x, norm):
        return by_definition(x, y, norm)
    return in_triton(x, y, norm)


def normalise(x: Tensor, norm: nn.Module) -> Tensor:
    return add_norm(x, None, norm)[1]


def can(x: Tensor, norm: nn.Module) -> bool:
    """True if the kernel takes this: a step of generation on a GPU, and a norm with a gain only."""
    return (x.is_cuda and x.shape[-2] == 1 and not torch.is_grad_enabled() and x.shape[-1] <= WIDEST
            and x.numel() <= MOST_ROWS * x.shape[-1] and x.dtype != torch.float64 and kind_of(norm) is not None
            and not torch.is_autocast_enabled("cuda") and not torch.compiler.is_compiling()
            and kernels.path(x) == "triton")


def kind_of(norm: nn.Module) -> str | None:
    if isinstance(norm, nn.LayerNorm) and norm.bias is None and norm.weight is not None:
        return "layer"
    return "rms" if isinstance(norm, nn.RMSNorm) and norm.weight is not None and norm.eps is not None else None


def in_triton(x: Tensor, y: Tensor | None, norm: nn.Module) -> tuple[Tensor, Tensor]:
    from regard.kernels.cuda.add_norm import add_norm as kernel

    return kernel(x, y, norm.weight, norm.eps, kind_of(norm) == "layer")                   # type: ignore[arg-type]
