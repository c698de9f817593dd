"""A causal convolution of each channel by itself: a few taps over the position and those before it.

    y[t] = bias + sum over j of weight[j] * x[t - K + 1 + j],        j = 0 .. K-1,  and x is zero before the first

x, y (B, T, D) · weight (D, K) · bias (D,);   B batch · T time · D channels · K taps

`convolve_seen` is the definition, tap by tap, which the compiler fuses. On a CUDA device `convolve` runs a Triton
kernel that reads x once; the compiled definition goes through memory once a tap in the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.selective_scan import choose_backend


def convolve_seen(seen: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The definition: (B, T, D) from what was seen, (B, K - 1 + T, D), the K - 1 inputs before the first included."""
    taps = weight.shape[1]
    time = seen.shape[1] - taps + 1
    y = torch.addcmul(bias, seen[:, :time], weight[:, 0])
    for j in range(1, taps):
        y = torch.addcmul(y, seen[:, j:j + time], weight[:, j])
    return y


def convolve(x: Tensor, weight: Tensor, bias: Tensor, *, path: str = "auto") -> Tensor:
    """y, of a sequence from its beginning. `path`: auto · triton · torch."""
    if path == "auto":
        path = choose_path(x.device, x.dtype)
    if path == "torch":
        return convolve_seen(F.pad(x, (0, 0, weight.shape[1] - 1, 0)), weight, bias)
    return torch.ops.regard.convolve(x, weight, bias)


def choose_path(device: torch.device, dtype: torch.dtype) -> str:
    """Triton where it works, as for the selective scan."""
    return choose_backend(device, dtype).name


# The compiler asks, and does not look at how it is found out: see log_softmax.py.
choose_path._dynamo_marked_constant = True                    # type: ignore[attr-defined]


# ---------------------------------------------------------- Triton's, as one operation to autograd and to torch.compile


@torch.library.custom_op("regard::convolve", mutates_args=())
def _forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    from regard.kernels.cuda import convolve as triton_convolution

    return triton_convolution.forward(x, weight, bias)


@torch.library.custom_op("regard::convolve_backward", mutates_args=())
def _backward(dy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, of the weight and of the bias, which has the type of the weight."""
    from regard.kernels.cuda import convolve as triton_convolution

    return triton_convolution.backward(dy, x, weight)


@_forward.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@_backward.register_fake
def _(dy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape[:1])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])


def _gradients(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.regard.convolve_backward(dy, *ctx.saved_tensors)


_forward.register_autograd(_gradients, setup_context=_keep)
