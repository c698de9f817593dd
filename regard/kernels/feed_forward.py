"""The feed-forward network of a block: W_2 f(W_1 x), position by position.

In training on a GPU, large ones with GPT-2's GELU run by cuBLAS, which applies f and its slope where the products leave
their numbers (cuda/products.py).   D width · E inner width
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.kernels.cuda import products
from regard.kernels.linear import ACTIVATIONS, linear


def by_definition(x: Tensor, up: nn.Linear, down: nn.Linear, activation: str) -> Tensor:
    y: Tensor = down(ACTIVATIONS[activation](up(x)))
    return y


def feed_forward(x: Tensor, up: nn.Linear, down: nn.Linear, activation: str, *, recompute: bool = False) -> Tensor:
    """down(f(up(x))); with `recompute` the backward pass computes f again rather than keep what it gave."""
    if activation == "gelu-tanh" and up.bias is None is down.bias and products.can(x, up.weight):
        return products.feed_forward(x, up.weight, down.weight, keep=not recompute)
    if recompute and torch.is_grad_enabled():
        y: Tensor = checkpoint(lambda inner: down(ACTIVATIONS[activation](inner)), up(x), use_reentrant=False,
                               preserve_rng_state=False)
        return y
    y = down(linear(x, up.weight, up.bias, activation))
    return y
