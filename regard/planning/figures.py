"""Figures measured on one GPU, and what they say of a model of another size.

`measured.json` is written by `python bench/plan_table.py --write` from `bench/results`. Each row has the speed at which
a family's training step did its arithmetic, and the bytes that it kept for each channel and token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regard.planning.blueprint import Blueprint
from regard.tasks import CARDS, USUAL

PATH = Path(__file__).parent / "measured.json"
COMMON = CARDS[USUAL].usual         # the family whose activations are taken for one that was not measured
UPDATE_BYTES = 40                  # a weight: what clipping and AdamW read and write in float32
FEW_TOKENS = 8192                  # at once: below, a GPU is slower than measured


@dataclass(frozen=True)
class Figure:
    """A training step of one model on one GPU."""

    family: str
    optimizer: str
    recompute: str                 # training.recompute
    device: str
    parameters: int
    tokens: int                    # at once
    milliseconds: float            # a step
    peak_gb: float                 # 0: not measured
    copies: float                  # bytes a second that a copy reads and writes, measured beside it
    operations: float              # a second, of products and attention
    channel_bytes: float           # kept for each channel and token; 0: not measured
    sources: tuple[str, ...]


@cache
def load_figures(path: Path = PATH) -> tuple[Figure, ...]:
    rows = json.loads(path.read_text("utf-8"))["figures"]
    return tuple(Figure(**row | {"sources": tuple(row["sources"])}) for row in rows)


@dataclass(frozen=True)
class Speed:
    """The speed and the activations of a model, as measured models say."""

    operations: float | None       # a second, on the GPU of the figures; None: no figure of this family
    channel_bytes: float
    copies: float
    device: str
    figures: tuple[Figure, ...]    # that the speed is from
    activations_of: str            # the family that `channel_bytes` was measured with


def find_speed(family: str, recompute: str, parameters: int, figures: Sequence[Figure] | None = None) -> Speed:
    """Return the speed between the two measured models next in size, or that of the nearest.

    It follows the logarithm of the size. Larger models than the largest measured are given its speed: theirs may be
    higher.
    """
    known = load_figures() if figures is None else figures
    mine = figures_of(family, recompute, known)
    of_memory = [each for each in mine if each.channel_bytes] or figures_of(COMMON, recompute, known)
    nearest = min(of_memory, key=lambda each: abs(math.log(each.parameters / parameters)))
    speed, used = interpolate(mine, parameters) if mine else (None, ())
    return Speed(speed, nearest.channel_bytes, nearest.copies, nearest.device, used, nearest.family)


def interpolate(figures: Sequence[Figure], parameters: int) -> tuple[float, tuple[Figure, ...]]:
    below = [each for each in figures if each.parameters <= parameters]
    above = [each for each in figures if each.parameters > parameters]
    if not below or not above:
        nearest = below[-1] if below else above[0]
        return nearest.operations, (nearest,)
    low, high = below[-1], above[0]
    share = math.log(parameters / low.parameters) / math.log(high.parameters / low.parameters)
    return low.operations + share * (high.operations - low.operations), (low, high)


def figures_of(family: str, recompute: str, known: Sequence[Figure]) -> list[Figure]:
    """Return the figures of a family with this training.recompute, the smallest model first."""
    return sorted((each for each in known if (each.family, each.recompute) == (family, recompute)),
                  key=lambda each: each.parameters)


def recomputes() -> tuple[str, ...]:
    """Return the values of training.recompute that were measured."""
    return tuple(sorted({each.recompute for each in load_figures() if figures_of(COMMON, each.recompute, [each])}))


# ------------------------------------------------------------------------------------------ time, there and back


def step_seconds(
    blueprint: Blueprint, tokens: float, operations: float, copies: float, muon: float = 1.0, update: float = 1.0
) -> float:
    """Return the seconds of a step over so many tokens, with these shares of Muon's work and of AdamW's update."""
    return (tokens * blueprint.operations + muon * blueprint.muon_operations) / operations + (
        update * update_bytes(blueprint) / copies)


def operations_a_second(blueprint: Blueprint, tokens: float, seconds: float, copies: float) -> float:
    """Return the speed with which `step_seconds` are so many."""
    return (tokens * blueprint.operations + blueprint.muon_operations) / (seconds - update_bytes(blueprint) / copies)


def update_bytes(blueprint: Blueprint) -> float:
    return float(UPDATE_BYTES * sum(weight.numel() for weight in blueprint.trained))
