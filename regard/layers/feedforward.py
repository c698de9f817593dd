"""The feed-forward layer of a block: the same small network at every position, so it carries no state."""

from __future__ import annotations

from torch import Tensor, nn

from regard.contract import Role
from regard.errors import SettingError
from regard.kernels.feed_forward import feed_forward
from regard.kernels.linear import ACTIVATIONS, Linear
from regard.layers.roles import RESIDUAL


class FeedForward(nn.Module):
    """W_2 f(W_1 x), or W_2 (silu(W_g x) * W_1 x) for SwiGLU, with the same number of weights either way."""

    recompute = False              # in training: recompute f in the backward pass; modules that can have this name

    def __init__(self, width: int, *, expand: float = 4.0, activation: str = "gelu", bias: bool = False):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise SettingError(f"model.activation = {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
        self.activation = activation
        gated = activation == "swiglu"
        inner = max(1, round(width * expand * (2 / 3 if gated else 1)))
        self.up = Linear(width, inner * (2 if gated else 1), bias=bias)        # W_1; gated: W_g and W_1, side by side
        self.down = Linear(inner, width, bias=bias)                            # W_2

    def parameter_roles(self) -> dict[str, Role]:
        return {"down.weight": RESIDUAL}

    def forward(self, x: Tensor) -> Tensor:
        return feed_forward(x, self.up, self.down, self.activation, recompute=self.recompute)
