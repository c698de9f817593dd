"""Tracks from what a watched run recorded: readings of one kind and one number of heads stand together, layer by layer.

N layers · H heads · R rows · C columns
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from regard.contract import SequenceLayer
from regard.look.track import Floats, Track
from regard.watching import Reading

WEIGHTS = "weights, rows sum to 1"
KERNEL, KERNEL_NORM = "implicit kernel, signed", "implicit kernel, its norm"
ABOUT = {
    "self": "How much each position reads of each earlier one and of itself: the softmax of its scores.",
    "both": "How much each position reads of every other and of itself, to either side: the softmax of its scores.",
    "encoder": "How much each position of the source reads of every other: the softmax of its scores.",
    "cross": "How much of each source token is read at the step that writes each target token.",
    "patches": "How much of each patch of the picture is read at the step that says each word.",
    "kernel": "What the recurrence passes on from each position to each later one: products of its own gates, with "
              "their signs. Nothing is normalised.",
}
Numbered = tuple[int, Reading]               # a reading, and its place among all of the run


def group_tracks(name: str, readings: Sequence[Numbered], names: Sequence[str], **about: Any) -> list[Track]:
    """The tracks of readings of one kind; where layers have different numbers of heads, each number is a track."""
    sizes = list(dict.fromkeys(reading.values.shape[1] for _, reading in readings))
    found = []
    for number, heads in enumerate(sizes, 1):
        own = [at for at, (_, reading) in enumerate(readings) if reading.values.shape[1] == heads]
        called = name if number == 1 else f"{name}-{number}"
        found.append(make_track(called, [readings[at] for at in own], [names[at] for at in own], **about))
    return found


def encoder_maps(readings: Sequence[Reading], stack: SequenceLayer, size: int) -> list[Track]:
    """Return the attention of an encoder over a text of `size` tokens, which it reads to either side."""
    weights = find_readings(readings, lambda reading: reading.kind == "weights" and is_map(reading, size, size))
    return group_tracks("self", weights, name_layers(stack, weights), rows="text", columns="text", about=ABOUT["both"])


def make_track(name: str, readings: Sequence[Numbered], names: Sequence[str], **about: Any) -> Track:
    values = stack_readings([reading for _, reading in readings])
    first = readings[0][1]
    fields: dict[str, Any] = dict(
        kind="weights", badge=WEIGHTS, about=ABOUT.get(name.rstrip("-0123456789"), ""), causal=False,
        head_names=tuple(f"head {head}" for head in range(1, values.shape[1] + 1)))
    if first.kind == "kernel":
        fields |= dict(kind="kernel", badge=KERNEL, signed=True, head_names=name_channels(first, values.shape[1]))
    if getattr(first.layer, "kernel_form", "") == "matrix":
        fields |= dict(badge=KERNEL_NORM, signed=False, about="How strongly the recurrence passes on what was read at "
                       "each position to each later one: the norm of W_h^(t-s) W_c, over all channels.")
    return Track(name=name, shape=values.shape, held=values, layer_names=tuple(names),        # type: ignore[arg-type]
                 places=tuple(place for place, _ in readings), **(fields | about))


def stack_readings(readings: Sequence[Reading]) -> Floats:
    """(N, H, R, C) of the first row of the batch. A reading lets go of its own numbers as they are copied, and a single
    one is not copied at all: they may be large, and are not to be held twice."""
    if len(readings) == 1:
        values = readings[0].values[0].float().cpu().contiguous().numpy()[None]
    else:
        values = np.empty((len(readings), *readings[0].values.shape[1:]), np.float32)
        for own, reading in zip(values, readings, strict=True):
            own[...] = reading.values[0].float().cpu().numpy()
            reading.values = torch.from_numpy(own)[None]
    return values


def name_channels(reading: Reading, heads: int) -> tuple[str, ...]:
    """Kernels are shown by groups of neighbouring channels, or heads: which."""
    groups, unit = reading.about.get("groups"), reading.about.get("unit", "channel")
    if not groups:
        return ("all channels",) if heads == 1 else tuple(f"channel {each}" for each in range(1, heads + 1))
    return tuple(f"{unit} {first + 1}" if last == first + 1 else f"{unit}s {first + 1} to {last}"
                 for first, last in groups)


def is_map(reading: Reading, rows: int, columns: int) -> bool:
    return reading.values.ndim == 4 and reading.values.shape[2:] == (rows, columns)


def find_readings(readings: Sequence[Reading], wanted: Callable[[Reading], bool]) -> list[Numbered]:
    return [(place, reading) for place, reading in enumerate(readings) if wanted(reading)]


# ------------------------------------------------------------------------------------------------ layers


def number_layers(count: int) -> list[str]:
    return [f"layer {number}" for number in range(1, count + 1)]


def name_layers(stack: SequenceLayer, readings: Sequence[Numbered]) -> list[str]:
    """Layers by their place in the stack, from the bottom, positions not counted: one kind may stand among others."""
    layers: Any = getattr(stack, "layers", [stack])
    blocks = [layer for layer in layers if not layer.adds_positions]
    place = {id(module): number for number, block in enumerate(blocks, 1) for module in block.modules()}
    return [f"layer {place[id(reading.layer)]}" if id(reading.layer) in place else f"layer {number}"
            for number, (_, reading) in enumerate(readings, 1)]


def count_maps(model: Any) -> tuple[int, int]:
    """The numbers of maps (T, T) that a watched run of T positions records: of attention, and of kernels."""
    layers = [module for module in model.modules() if getattr(module, "maps", 0)] if hasattr(model, "modules") else []
    return (sum(layer.maps for layer in layers if layer.reads), sum(layer.maps for layer in layers if not layer.reads))
