"""The linear map: y = f(W x + b), with an activation f or none.

    linear(x, weight, bias, activation)         the operation
    split_linear(x, layer, sizes)               W x cut into parts of so many columns, as queries, keys and values are
    Linear                                      its layer

The definition is `by_definition`. What runs instead, and where:

    cuda/matvec.py       a few rows on a GPU without a gradient, as in a step of generation; f comes with the product
    cuda/products.py     large products in training in half precision on a GPU
    cpu/packing.py       inside `packing()`, on a CPU: weights packed once; by oneDNN f comes with the product
    cpu/onednn.py        wide outputs without a gradient, on CPUs of AMD

N rows · D width in · E width out
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import kernels
from regard.kernels.cpu import onednn, packing
from regard.kernels.cuda import products

MOST_ROWS = 4                  # of a matrix-vector product; beyond, products of matrices are as quick
IN_MATVEC = ("", "gelu", "gelu-tanh", "relu", "relu2")


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU as GPT-2 has it, written so that a compiled kernel has it sooner."""
    return products.gelu(x) if torch.compiler.is_compiling() else F.gelu(x, approximate="tanh")


def swiglu(x: Tensor) -> Tensor:
    """silu(g) * u of g and u side by side: (..., 2 E) to (..., E)."""
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu, "gelu-tanh": gelu_tanh, "relu": F.relu, "relu2": lambda x: F.relu(x).square(), "silu": F.silu,
    "swiglu": swiglu}


def by_definition(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "") -> Tensor:
    y = F.linear(x, weight, bias)
    return ACTIVATIONS[activation](y) if activation else y


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "") -> Tensor:
    """x (..., D) times weight (E, D), the bias (E,) added, through the activation: (..., E)."""
    y, applied = _product(x, weight, bias, activation)
    return y if applied == activation else ACTIVATIONS[activation](y)


def split_linear(
    x: Tensor, layer: nn.Linear, sizes: list[int], f: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, ...]:
    """f(layer(x)).split(sizes, -1). In training on a GPU, large ones have no gradients of parts concatenated."""
    if layer.bias is None and 0 not in sizes and products.can(x, layer.weight):
        parts = products.parts(x, layer.weight, sizes)
        return parts if f is None else tuple(map(f, parts))
    y: Tensor = layer(x) if f is None else f(layer(x))
    return y.split(sizes, -1)


class Linear(nn.Linear):
    """W x + b, b zero at first."""

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> tuple[Tensor, str]:
    """W x + b by the quickest back-end, and the activation that came with it: the one asked for, or none."""
    if takes_few_rows(x, weight):
        applied = activation if activation in IN_MATVEC else ""
        return matvec(x, weight, bias, applied), applied
    if products.can(x, weight):
        return products.linear(x, weight, bias), ""
    if packing.packable(x, weight) and (packed := packing.PACKS.of(weight)) is not None:
        library = packing.library()
        applied = activation if activation in library.activations else ""
        return library.multiply(x, packed, weight, bias, applied), applied
    if not torch.compiler.is_compiling() and not torch.is_grad_enabled() and onednn.better(x, weight):
        return onednn.linear(x, weight, bias), ""
    return F.linear(x, weight, bias), ""


def takes_few_rows(x: Tensor, weight: Tensor) -> bool:
    """True if a matrix-vector product does this: a few rows on a GPU, in one type, without a gradient."""
    return (x.is_cuda and not torch.is_grad_enabled() and x.numel() <= MOST_ROWS * x.shape[-1]
            and x.dtype == weight.dtype and x.dtype in (torch.bfloat16, torch.float16, torch.float32)
            and x.is_contiguous() and weight.is_contiguous() and not torch.is_autocast_enabled("cuda")
            and not torch.compiler.is_compiling() and kernels.path(x) == "triton")


def matvec(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "") -> Tensor:
    from regard.kernels.cuda.matvec import matvec as in_triton

    return in_triton(x, weight, bias, activation)
