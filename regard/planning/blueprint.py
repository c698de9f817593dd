"""An blueprint: a model that is built on torch's `meta` device, which takes no memory, and what a plan asks of it.

Products of matrices are nearly all of the arithmetic: two operations for each weight and token forward, four backward.
Attention adds the products of queries with keys and of weights with values, over half of the square.
What each product reads and gives is kept for the backward pass, so the channels in and out of all matrices say how
activations grow; how many bytes a channel takes is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from regard.families import Family
from regard.families.fit import Undrawn
from regard.layers.roles import find_roles
from regard.layers.self_attention import SelfAttention
from regard.training.muon import ROUNDS
from regard.training.settings import TrainingSettings
from regard.training.sharding import gathered_twice, separate_layers
from regard.training.traffic import matrix_stacks

FORWARD_AND_BACKWARD = 6               # operations for each weight and token


@dataclass(frozen=True)
class Blueprint:
    """A model without numbers, and how it is trained."""

    model: Any
    settings: Any                      # the [model] table
    training: TrainingSettings
    context: int

    @cached_property
    def trained(self) -> list[Tensor]:
        return [weight for weight in self.model.parameters() if weight.requires_grad]

    @cached_property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.model.parameters())

    @cached_property
    def products(self) -> list[tuple[int, int]]:
        """The outputs and inputs of each product that every token goes through."""
        named = dict(self.model.named_parameters())
        found = [(len(weight), weight[0].numel()) for name, role in find_roles(self.model).items()
                 if role.kind in ("matrix", "weight") and (weight := named[name]).ndim > 1]
        head: Any = getattr(self.model, "head", None)
        return [*found, tuple(head.weight.shape)] if getattr(head, "tied", False) else found

    @cached_property
    def operations(self) -> float:
        """Floating-point operations for each token, forward and backward."""
        products = sum(rows * columns for rows, columns in self.products)
        attention = sum(min(self.context, each.window or self.context) / 2 * each.heads
                        * (each.head_width + each.value_width)
                        for each in self.model.modules() if isinstance(each, SelfAttention))
        return FORWARD_AND_BACKWARD * (products + attention)

    @cached_property
    def channels(self) -> int:
        """The channels in and out of all products but the last, whose outputs are never held."""
        vocab = len(self.model.head.weight) if hasattr(self.model, "head") else 0
        return sum(rows + columns for rows, columns in self.products if rows != vocab)

    @cached_property
    def muon_operations(self) -> float:
        """Floating-point operations of Muon's updates, of all matrices together."""
        if self.training.optimizer != "muon":
            return 0.0
        total = 0.0
        for several, rows, columns in matrix_stacks(self.model):
            short, long = sorted((rows, columns))
            total += several * ROUNDS * (4 * short**2 * long + 2 * short**3)
        return total

    @cached_property
    def state_bytes(self) -> int:
        """The bytes of what the optimiser remembers: two numbers a weight with AdamW, one with Muon or momentum."""
        roles, s = find_roles(self.model), self.training
        numbers = {"adamw": (2, 2), "muon": (1, 2), "sgd": (int(s.momentum > 0), int(s.momentum > 0))}[s.optimizer]
        return sum(weight.numel() * weight.element_size() * numbers[roles[name].kind != "matrix"]
                   for name, weight in self.model.named_parameters() if weight.requires_grad)

    @cached_property
    def replicated(self) -> list[Tensor]:
        """The weights that each rank of FSDP holds whole: gains, biases and decays."""
        named = dict(self.model.named_parameters())
        return [named[name] for name, role in find_roles(self.model).items() if role.kind == "gain"]

    @cached_property
    def groups(self) -> tuple[list[list[nn.Parameter]], list[nn.Parameter]]:
        """The weights that FSDP brings together at a time: those of each layer of a stack, and the rest."""
        kept = {id(weight) for weight in self.replicated}
        separate = [] if self.training.reading == "streams" else separate_layers(self.model)
        layers = [[weight for weight in layer.parameters() if id(weight) not in kept] for layer in separate]
        gathered = kept | {id(weight) for layer in layers for weight in layer}
        return layers, [weight for weight in self.model.parameters() if id(weight) not in gathered]

    def gathered_twice(self, bytes_a_weight: int) -> list[Tensor]:
        """Return the weights that FSDP brings together for the forward pass, and again for the backward pass."""
        return [] if self.training.reading == "streams" else gathered_twice(self.model, bytes_a_weight)


def draw_blueprint(family: Family, settings: Any, training: TrainingSettings, vocab: Any) -> Blueprint:
    """Build the model of these settings on `meta`."""
    assert family.build is not None
    with torch.device("meta"), Undrawn():
        model = family.build(settings, vocab)
    return Blueprint(model, settings, training, settings.context)
