"""The feed-forward layer of a block: the same small network at every position, so it carries no state."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.errors import SettingError
from regard.kernels import products
from regard.layers.packed import Linear, activated


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU as GPT-2 has it, written so that a compiled kernel has it sooner."""
    return products.gelu(x) if torch.compiler.is_compiling() else F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu, "gelu-tanh": gelu_tanh, "relu": F.relu, "relu2": lambda x: F.relu(x).square(), "swiglu": F.silu}


class FeedForward(nn.Module):
    """W_2 f(W_1 x), or W_2 (silu(W_g x) * W_1 x) for SwiGLU, with the same number of weights either way."""

    def __init__(self, width: int, *, expand: float = 4.0, activation: str = "gelu", bias: bool = False):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise SettingError(f"model.activation = {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
        self.activation = activation
        self.gated = activation == "swiglu"
        inner = round(width * expand * (2 / 3 if self.gated else 1))
        self.up = Linear(width, inner * (2 if self.gated else 1), bias=bias)
        self.down = Linear(inner, width, bias=bias)

    recompute = False              # in training: work what f gives out again on the way back, rather than keep it

    def forward(self, x: Tensor) -> Tensor:
        if not self.gated and (inner := activated(x, self.up.weight, self.up.bias, self.activation)) is not None:
            return self.down(inner)                            # in a step of generation: f comes with the product
        if self.activation == "gelu-tanh" and self.up.bias is None and products.can(x, self.up.weight):
            return products.feed_forward(x, self.up.weight, self.down.weight, keep=not self.recompute)
        inner = self.up(x)
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(self.out_of, inner, use_reentrant=False, preserve_rng_state=False)
        return self.out_of(inner)

    def out_of(self, inner: Tensor) -> Tensor:
        f = ACTIVATIONS[self.activation]
        if not self.gated:
            return self.down(f(inner))
        gate, inner = inner.chunk(2, -1)
        return self.down(f(gate) * inner)
