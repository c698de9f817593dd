"""Traffic of a step: the messages of each kind, and the bytes of them that leave a rank.

In a ring of N ranks, an all-reduce of B bytes sends 2 B (N - 1) / N from each; an all-gather, and a reduce-scatter,
B (N - 1) / N, where B is the whole of it. In an all-to-all each rank has B / N, and sends all but its own part of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.planning.blueprint import Blueprint
from regard.training import traffic
from regard.training.exchange import FIGURES, aligned
from regard.training.recorded_step import MOST_UPDATED
from regard.training.traffic import ring

ROUNDS = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1}
FULL = 4                               # bytes of a number in float32


@dataclass(frozen=True)
class Message:
    """Messages of a step that carry the same: how they travel, and the bytes of them all together."""

    name: str
    kind: str                          # all-reduce · all-gather · reduce-scatter · all-to-all
    size: float
    during_work: bool = False          # on other layers

    def leaving(self, ranks: int) -> float:
        """Return the bytes that leave each rank."""
        return ring(1, self.size / ranks, ranks) if self.kind == "all-to-all" else ring(
            ROUNDS[self.kind], self.size, ranks)


def of_data_parallel(blueprint: Blueprint, ranks: int, gpu: bool = True) -> list[Message]:
    """Return one all-reduce of all gradients; with Muon also an all-gather of its updates, which are bfloat16 on a GPU
    and stay at home where a small model's updates are recorded."""
    if ranks == 1:
        return []
    found = [Message("gradients", "all-reduce", traffic.gradient_bytes(blueprint.model, ranks))]
    recorded = gpu and blueprint.parameters <= MOST_UPDATED and blueprint.training.compile != "no"
    if blueprint.training.optimizer == "muon" and not recorded:
        whole = traffic.update_bytes(blueprint.model, ranks)
        found.append(Message("Muon's updates", "all-gather", whole / 2 if gpu else whole))
    return found


def of_fsdp(blueprint: Blueprint, ranks: int, passes: int = 1, bytes_a_weight: int = 2) -> list[Message]:
    """Return the all-gathers of weights, twice for most layers, once for the last ones and for what stands outside of
    layers, and the reduce-scatter of their gradients in float32, in each of so many forward and backward passes of a
    step. Once a step follow an all-reduce for what every rank holds whole, and with Muon two all-to-alls: the rows of
    each matrix travel to a rank that works on it, and back."""
    if ranks == 1:
        return []
    layers, rest = blueprint.groups
    again = {id(weight) for weight in blueprint.gathered_twice(bytes_a_weight)}
    whole = sum(padded(group, ranks) for group in (*layers, rest))
    twice = sum(padded([weight for weight in group if id(weight) in again], ranks) for group in layers)
    kept = aligned(ranks * len(FIGURES)) + sum(aligned(weight.numel()) for weight in blueprint.replicated)
    found = [Message("weights", "all-gather", passes * bytes_a_weight * (whole + twice), during_work=True),
             Message("gradients", "reduce-scatter", passes * FULL * whole, during_work=True),
             Message("gradients of gains", "all-reduce", FULL * kept)]
    if blueprint.training.optimizer == "muon":
        numbers = sum(several * rows * columns for several, rows, columns in traffic.matrix_stacks(blueprint.model))
        found.append(Message("Muon's rows", "all-to-all", 2 * FULL * numbers))
    return found


def padded(weights: Sequence[Tensor], ranks: int) -> int:
    """Return the numbers of some weights whose rows are dealt out evenly, with the rows that this adds."""
    return sum(-(-len(weight) // ranks) * ranks * (weight.numel() // len(weight)) for weight in weights)
