"""A model of a wanted number of parameters: what makes a comparison of families fair.

A family's `resize` gives its settings at any size; the count grows with the size, so the size is found by halving.
Models are built on torch's `meta` device for this, which takes no memory, and no weight of theirs is drawn.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from regard.errors import SettingError
from regard.families.family import Family

TOLERANCE = 0.05             # of the wanted number: beyond it two models are not of one size
LARGEST_SIZE = 2**14
DRAWS = ("normal_", "uniform_", "zeros_", "ones_", "constant_", "kaiming_uniform_", "xavier_uniform_", "trunc_normal_",
         "orthogonal_", "zero_", "fill_")


class Undrawn(TorchFunctionMode):
    """Leaves tensors as they were made: on `meta`, torch works a draw out in Python, and imports much for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.__name__ in DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def parameters(family: Family, settings: Any, vocab: Any) -> int:
    """Every parameter, embeddings included, a tied one once."""
    assert family.build is not None
    with torch.device("meta"), Undrawn():
        model = family.build(settings, vocab)
    return sum(weight.numel() for weight in model.parameters())


def fit_parameters(family: Family, settings: Any, vocab: Any, wanted: int) -> Any:
    """The settings with the sizes changed such that the model has `wanted` parameters, as nearly as it can be."""
    if family.resize is None:
        return settings

    def count(size: int) -> int:
        assert family.resize is not None
        return parameters(family, family.resize(settings, size), vocab)

    low, high = 1, 2
    while count(high) < wanted and high < LARGEST_SIZE:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < wanted else (low, middle)
    size = min((low, high), key=lambda each: abs(count(each) - wanted))
    found = count(size)
    if abs(found - wanted) > TOLERANCE * wanted:
        raise SettingError(
            f"--params {wanted:,}: the nearest {family.name} over a vocabulary of "
            f"{f'{vocab:,}' if isinstance(vocab, int) else vocab} has {found:,}; "
            "choose more parameters or a smaller --vocab")
    return family.resize(settings, size)
