"""Shapes that depend on numbers: Python may look at these where it need not wait for a device to know them.

B batch · T time · D width
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def least_and_most(x: Tensor) -> tuple[int, int] | None:
    """The least and the largest entry. None on a GPU, which would have to be waited for; while compiling, as a compiled
    step keeps its shapes; and where x is empty."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or not len(x):
        return None
    least, most = torch.aminmax(x)
    return int(least), int(most)


def map_where(asked: Tensor, f: Callable[[Tensor, Tensor], Tensor], vectors: Tensor, targets: Tensor) -> Tensor:
    """(B, T): f of vectors (B, T, D) and targets (B, T) where `asked`, zero elsewhere; f reads rows independently.

    A compiler fixes every shape: there f reads all positions, elsewhere only those asked for.
    """
    if torch.compiler.is_compiling():
        return torch.where(asked, f(vectors, targets), 0.0)
    found = f(vectors[asked][None], targets[asked][None])[0]                                  # one a position asked for
    return torch.zeros(targets.shape, dtype=found.dtype, device=found.device).masked_scatter(asked, found)
