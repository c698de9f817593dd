"""The precision that autocast asks for."""

from __future__ import annotations

import torch
from torch import Tensor


def product_dtype(x: Tensor) -> torch.dtype:
    """The type in which x enters a product: autocast's where it is on, else its own."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def in_precision(x: Tensor) -> Tensor:
    """x in the precision of products: half the bytes between two layers, under autocast."""
    return x.to(product_dtype(x))
