"""The traffic of data parallel training: the bytes that leave each rank in a step.

In a ring of N ranks, an all-reduce of B bytes sends 2 B (N - 1) / N from each: every part goes round once to be summed
and once to be known. An all-gather of B bytes in all sends B (N - 1) / N.
"""

from __future__ import annotations

import math
from typing import Any

from regard.layers.roles import find_roles
from regard.training.exchange import FIGURES, aligned, deal_matrices
from regard.training.recorded_step import why_updates_are_eager


def bytes_a_step(model: Any, settings: Any, count: int) -> dict[str, float]:
    """Return the bytes that each of `count` ranks sends in a step, by what they are."""
    found = {"gradients": ring(2, gradient_bytes(model, count), count)}
    if settings.optimizer == "muon" and shares_updates(model, settings):
        found["Muon's updates"] = ring(1, update_bytes(model, count), count)
    return found


def sharded_bytes(shards: Any, count: int, passes: int = 1) -> dict[str, float]:
    """Return the bytes that each of `count` ranks sends in a step of FSDP, in so many forward and backward passes.

    The matrices of most layers are gathered for each direction, those of the last ones and what stands outside of
    layers once; gradients go once.
    """
    size = {name: -(-shape[0] // count) * count * math.prod(shape[1:]) for name, shape in shards.shapes.items()
            if name not in shards.replicated}
    twice = sum(numbers for name, numbers in size.items() if name in shards.twice)
    kept = [weight for name, weight in shards.trained.items() if name in shards.replicated]
    wide = next(iter(shards.own.values())).element_size()
    figures = aligned(count * len(FIGURES)) + sum(aligned(weight.numel()) for weight in kept)
    return {"weights": ring(1, passes * shards.weight_bytes * (sum(size.values()) + twice), count),
            "gradients": ring(1, passes * wide * sum(size.values()), count) + ring(2, wide * figures, count)}


def ring(rounds: int, size: float, count: int) -> float:
    """Return the bytes that a rank sends while so many bytes go round."""
    return rounds * size * (count - 1) / count


def gradient_bytes(model: Any, count: int) -> int:
    """Return the size of the one message that carries every gradient, and what each rank says of the step."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    numbers = aligned(count * len(FIGURES)) + sum(aligned(weight.numel()) for weight in weights)
    return int(numbers * weights[0].element_size())


def update_bytes(model: Any, count: int) -> int:
    """Return the size of Muon's updates of all ranks together, each as large as the largest; bfloat16 on a GPU."""
    stacks = matrix_stacks(model)
    owners = deal_matrices(stacks, count)
    sizes = [sum(rows * columns * owner.count(rank) for (_, rows, columns), owner in zip(stacks, owners, strict=True))
             for rank in range(count)]
    weight = next(iter(model.parameters()))
    return int(count * max(sizes) * (2 if weight.is_cuda else weight.element_size()))


def matrix_stacks(model: Any) -> tuple[tuple[int, int, int], ...]:
    """Return (N, rows, columns) of the stacks of matrices that Muon makes orthogonal together."""
    named = dict(model.named_parameters())
    alike: dict[tuple[int, int], int] = {}
    unequal: dict[tuple[tuple[int, ...], int], int] = {}
    for name, role in find_roles(model).items():
        weight = named[name]
        if role.kind != "matrix" or not weight.requires_grad:
            continue
        rows, columns = weight.shape
        if isinstance(role.parts, int):
            key = rows // role.parts, columns
            alike[key] = alike.get(key, 0) + role.parts
        else:
            both = tuple(role.parts), columns
            unequal[both] = unequal.get(both, 0) + 1
    return (*((number, *shape) for shape, number in alike.items()),
            *((number, rows, columns) for (several, columns), number in unequal.items() for rows in several))


def shares_updates(model: Any, settings: Any) -> bool:
    """Return whether Muon's work is shared out: not where updates are recorded, as those of a small model on a GPU."""
    return bool(why_updates_are_eager(model, settings.compile))


def say_bytes(size: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"
