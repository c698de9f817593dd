"""Memory of a rank: weights, gradients, the optimizer's state, what is in transit, and activations.

With data parallel each rank holds all weights, gradients and states, and a second copy of the gradients: the message.
With FSDP it holds 1 / N of the matrices and their gradients and states, and a layer or two whole while they are needed,
beside the last ones, which stay whole from forward to backward; at validations all weights, when there are no
activations.
"""

from __future__ import annotations

from regard.planning.blueprint import Blueprint

LEFT = 0.1                     # of a GPU's memory, for CUDA, NCCL and gaps between tensors: assumed
HALF, FULL = 2, 4              # bytes of a number in bfloat16 and float32
GATHERED = "layers gathered"
AHEAD = 2                      # layers that FSDP holds whole: the one at work, and the next on its way


def held_by_one(blueprint: Blueprint, ranks: int) -> dict[str, float]:
    """Return the bytes that a rank of data parallel training holds, but for activations; of one rank too."""
    held = everything(blueprint)
    if ranks > 1:
        held["message"] = float(sum(weight.numel() * weight.element_size() for weight in blueprint.trained))
    held["weights in bfloat16"] = float(HALF * sum(rows * columns for rows, columns in blueprint.products))
    return held


def held_by_shard(blueprint: Blueprint, ranks: int) -> dict[str, float]:
    """Return the bytes that a rank of FSDP holds, but for activations."""
    whole_share = sum(weight.numel() for weight in blueprint.replicated) / blueprint.parameters
    share = whole_share + (1 - whole_share) / ranks
    held = {name: size * share for name, size in everything(blueprint).items()}
    layers, rest = blueprint.groups
    largest = max((sum(weight.numel() for weight in layer) for layer in layers), default=0)
    whole = AHEAD * largest + sum(weight.numel() for weight in rest)
    again = {id(weight) for weight in blueprint.gathered_twice(HALF)}
    kept = sum(weight.numel() for layer in layers for weight in layer if id(weight) not in again)
    return held | {GATHERED: float((HALF + FULL) * whole + HALF * kept)}       # weights, and gradients on their way out


def held_at_validation(blueprint: Blueprint, ranks: int) -> float:
    """Return the bytes that a rank of FSDP holds while all weights are gathered, to be validated or saved."""
    share = sum(size for name, size in held_by_shard(blueprint, ranks).items() if name != GATHERED)
    return share + everything(blueprint)["weights"]


def everything(blueprint: Blueprint) -> dict[str, float]:
    """Return the bytes of all weights, gradients and states."""
    weights = sum(weight.numel() * weight.element_size() for weight in blueprint.model.parameters())
    trained = sum(weight.numel() * weight.element_size() for weight in blueprint.trained)
    held = {"weights": float(weights), "gradients": float(trained), "optimizer": float(blueprint.state_bytes)}
    return held | ({"averaged weights": float(trained)} if blueprint.training.ema else {})


def activations(blueprint: Blueprint, tokens: float, bytes_a_channel: float) -> float:
    """Return the bytes that so many tokens at once keep for the backward pass."""
    return tokens * blueprint.channels * bytes_a_channel


def usable(memory: float) -> float:
    """Return the bytes of a GPU that a plan may fill."""
    return memory * (1 - LEFT)
