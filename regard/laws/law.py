"""A law: a promise that can be tested on anything, and the two ways in which numbers are held equal.

`same` allows rounding (1e-12 in float64, 1e-5 in float32, of the largest number compared); `bit_equal` allows nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}


class LawBroken(RegardError):
    """A law does not hold; the message says where, and by how much."""

    def __init__(self, law: str, message: str):
        super().__init__(f"{law}: {message}")
        self.law, self.message = law, message


class LawSkipped(Exception):
    """A law does not apply here; the message says why."""


@dataclass(frozen=True)
class Law:
    """One promise: the test, whose docstring says it in a sentence, and what usually breaks it."""

    name: str
    check: Callable[[Any], None]           # of a reader: a layer's, a model's or an encoder's
    usual_cause: str

    @property
    def meaning(self) -> str:
        sentence = " ".join((self.check.__doc__ or "").split()).removesuffix(".")
        return sentence[:1].lower() + sentence[1:]


def tolerance_for(values: Tensor, dtype: torch.dtype | None = None) -> float:
    """The error that rounding may make in numbers like these; `dtype`, if coarser, is what they were computed in."""
    allowed = max(TOLERANCE.get(values.dtype, 0.0), TOLERANCE.get(dtype, 0.0) if dtype is not None else 0.0)
    finite = values[values.isfinite()]
    return allowed * (1.0 + (finite.abs().max().item() if finite.numel() else 0.0))


def same(law: str, got: Tensor, expected: Tensor, where: str, *, dtype: torch.dtype | None = None) -> None:
    """Equal but for rounding, or LawBroken; equal infinities are equal, NaN is equal to nothing."""
    _judge(law, got, expected, where, tolerance_for(expected, dtype))


def bit_equal(law: str, got: Tensor, expected: Tensor, where: str) -> None:
    """Equal to the last bit, or LawBroken."""
    _judge(law, got, expected, where, 0.0)


def all_finite(law: str, values: Tensor, where: str) -> None:
    if not values.isfinite().all():
        place = place_of(~values.isfinite())
        raise LawBroken(law, f"{where}: {place} is {values[~values.isfinite()][0].item()}, not a finite number")


def place_of(wrong: Tensor) -> str:
    """`row 1, position 4`: the first place where `wrong` (B, T, ...) is true."""
    names = ("row", "position", "channel")
    index = wrong.nonzero()[0].tolist()
    return ", ".join(f"{name} {i}" for name, i in zip(names, index[:2], strict=False)) or "the value"


def _judge(law: str, got: Tensor, expected: Tensor, where: str, tolerance: float) -> None:
    if got.shape != expected.shape:
        raise LawBroken(law, f"{where}: the shape is {tuple(got.shape)}, not {tuple(expected.shape)}")
    got, expected = got.detach(), expected.detach()
    difference = torch.where(got == expected, torch.zeros_like(expected), (got - expected).abs())
    difference = difference.nan_to_num(nan=torch.inf, posinf=torch.inf)
    wrong = difference > tolerance
    if wrong.any():
        allowed = f"tolerance {tolerance:.1e}" if tolerance else "must be bit-equal"
        raise LawBroken(law, f"{where}: {place_of(wrong)} differs; the largest difference is "
                             f"{difference.max().item():.2e} ({allowed})")
