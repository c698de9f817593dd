"""The precision of products: what autocast asks for, and float32 without TF32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def product_dtype(x: Tensor) -> torch.dtype:
    """The type in which x enters a product: autocast's where it is on, else its own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def in_precision(x: Tensor) -> Tensor:
    """x in the precision of products: half the bytes between two layers, under autocast."""
    return x.to(product_dtype(x))


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Float32 means float32: no TF32, in matrix products or in cuDNN."""
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn
