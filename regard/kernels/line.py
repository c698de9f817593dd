"""A few vectors through one matrix, as a step of generation has them: y = f(W x + b).

A product of matrices is made for many rows. With one or a few, the time is that of reading W once; on a GPU this kernel
does nothing else, and has the activation applied on the way out.   R rows · D width in · E width out
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from regard import kernels

MOST_ROWS = 4                  # beyond, products of matrices are as quick
ACTIVATIONS = ("", "gelu", "gelu-tanh", "relu", "relu2")


def can(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernel takes this: a few rows on a GPU, in one type, with nothing to be learned."""
    return (x.is_cuda and not torch.is_grad_enabled() and x.numel() <= MOST_ROWS * x.shape[-1]
            and x.dtype == weight.dtype and x.dtype in (torch.bfloat16, torch.float16, torch.float32)
            and x.is_contiguous() and weight.is_contiguous() and not torch.is_autocast_enabled("cuda")
            and not torch.compiler.is_compiling() and kernels.path(x) == "triton")


def line(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "") -> Tensor:
    """x (..., D) times weight (E, D), the bias (E,) added, through the activation: (..., E)."""
    if can(x, weight):
        from regard.kernels.line_triton import line as in_triton

        return in_triton(x, weight, bias, activation)
    return by_definition(x, weight, bias, activation)


def by_definition(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "") -> Tensor:
    y = F.linear(x, weight, bias)
    if activation == "gelu":
        return y * (1 + torch.erf(y / math.sqrt(2))) / 2
    if activation == "gelu-tanh":
        return y * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))
    return y if not activation else y.relu() if activation == "relu" else y.relu().square()
