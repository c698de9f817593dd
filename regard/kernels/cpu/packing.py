"""Products with weights that are packed once: what a search on a CPU multiplies by thousands of times.

A matrix product rearranges its weights before it multiplies, to read them in the order in which a CPU wants them. With
few rows, as in one step of a search, that takes as long as the multiplying. So inside `packing()` each weight is kept
rearranged from its first product on, for as long as its numbers stay the same: by MKL, or by oneDNN on CPUs of AMD.
N rows · D width in · E width out
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from regard.kernels.cpu import onednn

LEAST_WEIGHTS = 2**14          # smaller ones are in the cache anyway, and a call more costs more than it gains
MOST_BYTES = 2**31             # of packed weights in all: a model that large is not searched with on a CPU

_packing: ContextVar[bool] = ContextVar("regard_packing", default=False)


@contextmanager
def packing() -> Iterator[None]:
    """Weights that are multiplied by inside this block are packed. It changes no number beyond rounding."""
    token = _packing.set(True)
    try:
        yield
    finally:
        _packing.reset(token)


def packable(x: Tensor, weight: Tensor) -> bool:
    """True if the weight is packed for x: inside `packing()`, in float32 on a CPU, without a gradient or autocast."""
    return (not torch.compiler.is_compiling() and _packing.get() and not torch.is_grad_enabled()
            and x.dtype == weight.dtype == torch.float32 and x.device.type == weight.device.type == "cpu"
            and weight.numel() >= LEAST_WEIGHTS and x.is_contiguous() and weight.is_contiguous()
            and not torch.is_autocast_enabled("cpu") and why_not(torch.get_num_threads()) is None
            and library().is_faster(x.numel() // x.shape[-1], weight.numel()))


# --------------------------------------------------------------------------------------------------- the libraries


@dataclass(frozen=True)
class Library:
    """A library that packs weights, multiplies by packed ones, and may apply activations to the product."""

    name: str
    there: Callable[[], bool]
    pack: Callable[[Tensor], Tensor]
    multiply: Callable[[Tensor, Tensor, Tensor, Tensor | None, str], Tensor]       # x, packed, weight, bias, activation
    is_faster: Callable[[int, int], bool]      # with so many rows and weights
    activations: tuple[str, ...] = ()


# MKL wants to know for how many rows it packs. What is good for many serves few as well, up to half the width out:
# beyond, threads would share rows rather than columns, and few rows leave some without any. With fewer than four rows
# a product takes as long as reading its weights, in whatever order.
MKL = Library(
    "MKL",
    there=lambda: torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear"),
    pack=lambda weight: torch.ops.mkl._mkl_reorder_linear_weight(weight, min(512, max(1, len(weight) // 2))),
    multiply=lambda x, packed, weight, bias, activation: torch.ops.mkl._mkl_linear(
        x, packed, weight, bias, x.numel() // x.shape[-1]),
    is_faster=lambda rows, weights: rows >= 4)

# To ask oneDNN takes ten microseconds longer.
ONEDNN = Library(
    "oneDNN", there=onednn.there, pack=onednn.pack,
    multiply=lambda x, packed, weight, bias, activation: onednn.linear(x, packed, bias, activation),
    is_faster=lambda rows, weights: rows > 0 and (weights >= 2**16 or rows * weights >= 2**20),
    activations=tuple(onednn.ACTIVATIONS))


def library() -> Library:
    return ONEDNN if onednn.preferred() else MKL


@cache
def why_not(threads: int) -> str | None:
    """Why nothing is packed here, or None. It is tried out once for each number of threads.

    Verified at run time, because MKL does not promise that a weight packed for one number of rows works for another.
    """
    own = library()
    if not own.there():
        return f"this build of torch has no {own.name}"
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for wide, deep in ((96, 160), (700, 64), (33, 130)):
            weight = torch.randn(wide, deep, generator=generator)
            packed = own.pack(weight)
            for rows in (1, 4, 5, 33, 512, 600):
                x = torch.randn(rows, deep, generator=generator)
                ours = own.multiply(x, packed, weight, None, "")
                if not torch.allclose(ours, x @ weight.T, rtol=1e-4, atol=1e-4):
                    return f"{own.name}'s packed product of {rows} rows is wrong here"
    return None


# ------------------------------------------------------------------------------------------------ what is kept


class Packs:
    """The packed weights of all models in use, and what each was made of; those of a model that is gone go with it."""

    def __init__(self) -> None:
        self.kept: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def of(self, weight: Tensor) -> Tensor | None:
        """The weight packed, anew if it has changed; None if there is no room for more."""
        # Where its numbers are, how often they changed, threads.
        made_of = (weight.data_ptr(), 0 if weight.is_inference() else weight._version, torch.get_num_threads())
        before, packed = self.kept.get(weight, (None, None))
        if before == made_of:
            return packed                                                             # type: ignore[no-any-return]
        if before is None and self.nbytes() + weight.numel() * 4 > MOST_BYTES:
            return None
        packed = library().pack(weight.detach())
        self.kept[weight] = made_of, packed
        return packed

    def nbytes(self) -> int:
        return sum(weight.numel() * 4 for weight in self.kept)


PACKS = Packs()
