"""Exercise 10. The block: residual connections and layer norms around two layers.   B batch · T time · D width

    layer_norm(x) = gain * (x - mean) / sqrt(variance + eps) + bias      over the D numbers of one position;
                                                                        the variance divides by D
    pre-norm      y = x + mix(norm_1(x))         z = y + feed(norm_2(y))
    post-norm     y = norm_1(x + mix(x))         z = norm_2(y + feed(y))

`mix` (attention, say), `feed` (the feed-forward layer) and both norms are functions of a tensor (B, T, D).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Layer = Callable[[Tensor], Tensor]


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Return each position with mean 0 and variance 1, times gain, plus bias.   (B, T, D), (D,), (D,) -> (B, T, D)"""
    raise NotImplementedError


def pre_norm_block(x: Tensor, mix: Layer, feed: Layer, norm_1: Layer, norm_2: Layer) -> Tensor:
    """Return z of the pre-norm block."""
    raise NotImplementedError


def post_norm_block(x: Tensor, mix: Layer, feed: Layer, norm_1: Layer, norm_2: Layer) -> Tensor:
    """Return z of the post-norm block."""
    raise NotImplementedError
