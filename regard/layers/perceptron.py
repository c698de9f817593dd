"""A plain feed-forward network, the same at every position: it looks neither back nor ahead, so it carries no state.

B batch · T time · D width in · N hidden width
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.contract import Memory, SequenceLayer
from regard.errors import SettingError
from regard.kernels.dropout import Dropout

NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh}


class Perceptron(SequenceLayer):
    """x = f(W x + b), `layers` times."""

    def __init__(self, d_in: int, d_hidden: int, *, layers: int = 1, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        assert layers >= 1, "a network has at least one layer"
        self.d_in, self.d_out = d_in, d_hidden
        self.activation = nonlinearity(activation)
        self.hidden = nn.ModuleList(nn.Linear(d_in if layer == 0 else d_hidden, d_hidden) for layer in range(layers))
        self.dropout = Dropout(dropout)

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> None:
        return None

    def forward(self, x: Tensor, state: None = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        for layer in self.hidden:
            x = self.dropout(NONLINEARITIES[self.activation](layer(x)))
        return x, None


def nonlinearity(name: str) -> str:
    """The name, if there is such a nonlinearity."""
    if name not in NONLINEARITIES:
        raise SettingError(f"model.activation = {name!r}: choose one of {', '.join(NONLINEARITIES)}")
    return name
