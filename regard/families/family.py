"""Families and registered layers: the rows of the two tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import fill
from regard.contract import LanguageModel, Learner, SequenceLayer, Source
from regard.families.sizes import Scale, Sizes, Tables
from regard.layers.roles import find_roles


@dataclass(frozen=True)
class Family:
    name: str
    about: str
    settings: type                                               # a frozen dataclass
    example: Callable[[torch.dtype], Any]                        # tiny, without dropout: every law is tested on it
    sizes: Callable[[Scale, Tables], Sizes] = lambda scale, wanted: Sizes()      # wanted: the settings a user gave
    resize: Callable[[Any, int], Any] | None = None              # the settings, `size` large; the count grows with it
    build: Callable[[Any, Any], Any] | None = None               # (settings, vocabulary) -> trained by gradients, or
    count: Callable[..., LanguageModel] | None = None            # (settings, vocabulary, tokens, ends) -> at once
    restore: Callable[[Any, int, dict[str, Tensor]], LanguageModel] | None = None      # from saved tensors
    example_source: Callable[[], Source] | None = None          # for an example that needs one
    begins_with: tuple[str, str] | None = None          # task and family of another model whose encoder it can take up
    older: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict       # a run's table, with what was not said then

    def settings_of_run(self, table: Mapping[str, Any]) -> Any:
        """The settings that the [model] table of a run holds. An older run keeps the equations it was trained with."""
        return fill(self.settings, self.older(table), "model")


@dataclass(frozen=True)
class LayerKind:
    """A registered SequenceLayer: it earns every law by standing in this table."""

    name: str
    about: str
    build: Callable[[int], SequenceLayer]              # width in; the layer may give another width out

    def example(self, dtype: torch.dtype = torch.float64) -> SequenceLayer:
        torch.manual_seed(0)
        return randomised(self.build(8)).to(dtype).eval()


def tiny(build: Callable[[Any, Any], Learner], settings: Any, vocab: Any = 11) -> Callable[[torch.dtype], Any]:
    """A maker of small models for the laws, with weights that hide nothing."""

    def example(dtype: torch.dtype = torch.float64) -> Any:
        torch.manual_seed(0)
        return randomised(build(settings, vocab)).to(dtype).eval()

    return example


def randomised(module: nn.Module) -> Any:
    """The module with every weight drawn anew: at their first values some layers do nothing, and would hide a bug."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(std=0.4)
    return module


def initialise(model: Any) -> None:
    """Set normal weights by fan-in, and residual ones to zero, so that a deep stack starts as the identity."""
    for module in model.stack.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.5 * module.in_features**-0.5)
    for name, role in find_roles(model.stack).items():
        if role.residual:
            nn.init.zeros_(model.stack.get_parameter(name))
