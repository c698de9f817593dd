"""A copy made ready for judgement: nothing left to chance, nothing hidden behind a zero."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

ONLY_IN_TRAINING = ("dropout", "smoothing")      # settings that make train mode differ from eval mode on purpose


def prepared(module: Any, dtype: torch.dtype | None = None) -> Any:
    """A copy without dropout, in which every weight counts; `dtype` None leaves it in its own type."""
    module = copy.deepcopy(module)
    turn_off_dropout(module)
    fill_zeros(module)
    return module if dtype is None else module.to(dtype)


def turn_off_dropout(module: nn.Module) -> None:
    for each in module.modules():
        if isinstance(each, nn.modules.dropout._DropoutNd):
            each.p = 0.0
        for setting in ONLY_IN_TRAINING:
            if isinstance(getattr(each, setting, None), float):
                setattr(each, setting, 0.0)


def fill_zeros(module: nn.Module) -> None:
    """Draw every weight that is all zeros: a layer that starts by adding nothing would hide what it does."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.is_floating_point() and weight.numel() and not weight.any():
                weight.copy_(0.3 * torch.randn(weight.shape, generator=random))


def in_type(dtype: torch.dtype) -> Any:
    """A function that brings floating tensors to this type and leaves the others alone."""
    return lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor
