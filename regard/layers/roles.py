"""Roles of parameters: what optimisers and initialisers know of each, as the module that owns it declares.

    matrix      a map between vectors: Muon's, where Muon trains
    weight      any other weight of two dimensions or more: outputs, filters, scores
    embedding   a vector for each token or place: never decayed
    gain        one number a channel: gains, biases, decays, first states; never decayed

A module declares the roles of its own parameters, and of those of its children, in `parameter_roles()`. What it does
not declare follows from the shape: of two dimensions, it is a matrix in a SequenceLayer, and a weight elsewhere.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.contract import Role, SequenceLayer

MATRIX, WEIGHT, EMBEDDING, GAIN = (Role(kind) for kind in ("matrix", "weight", "embedding", "gain"))
RESIDUAL = Role("matrix", residual=True)
DECAYED = ("matrix", "weight")


def find_roles(model: nn.Module) -> dict[str, Role]:
    """The role of every parameter under its name; of two declarations the outer one counts."""
    declared: dict[Tensor, Role] = {}
    in_layers: set[Tensor] = set()
    for module in model.modules():
        for name, role in getattr(module, "parameter_roles", dict)().items():
            declared.setdefault(module.get_parameter(name), role)
        if isinstance(module, SequenceLayer):
            in_layers.update(module.parameters())
    return {name: declared.get(parameter) or role_by_shape(parameter, parameter in in_layers)
            for name, parameter in model.named_parameters()}


def role_by_shape(parameter: Tensor, in_layer: bool) -> Role:
    if parameter.ndim < 2:
        return GAIN
    return MATRIX if in_layer and parameter.ndim == 2 else WEIGHT
