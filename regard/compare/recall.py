"""Recall at distance: how much a model gains from having read a passage some tokens ago.

From the held-out text a passage is taken, and read twice with d other tokens between:

    passage (24) · filler (d) · cue: the passage's first 8 · rest: its last 16

The rest is scored, and scored again with another passage in the first place. The difference is what remembering is
worth, in bits a token: log2 p(rest | it was read d tokens ago) - log2 p(rest | it was not). Every family gets the same
passages. A model without memory of the passage gains nothing; one that copies perfectly gains all that the rest costs.
B sequences · T time
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.contract import LanguageModel

DISTANCES = (16, 64, 256, 1024)
PASSAGE, CUE = 24, 8                 # tokens of the passage, and of its beginning that is given again
SEQUENCES = 32
AT_ONCE = 8                          # sequences read together


def recall(
    model: LanguageModel, stream: np.ndarray, distances: tuple[int, ...], sequences: int
) -> dict[str, dict[str, Any]]:
    """{distance: {gain, error}} in bits a token; only a reason where a distance cannot be measured."""
    gains: dict[str, dict[str, Any]] = {}
    for distance in distances:
        needed = 2 * PASSAGE + distance
        if model.context is not None and needed > model.context:
            gains[str(distance)] = {"gain": None, "why": f"reads at most {model.context} tokens at once"}
        elif len(stream) < needed + PASSAGE:
            gains[str(distance)] = {"gain": None, "why": "the held-out text is too short"}
        else:
            gains[str(distance)] = gain_at(model, stream, distance, sequences)
    return gains


def gain_at(model: LanguageModel, stream: np.ndarray, distance: int, sequences: int) -> dict[str, Any]:
    seen, unseen = probes(stream, distance, sequences)
    gains = (rest_bits(model, unseen) - rest_bits(model, seen)).double()                  # (B,)
    error = float(gains.std()) / math.sqrt(len(gains)) if len(gains) > 1 else None
    return {"gain": float(gains.mean()), "error": error}


def probes(stream: np.ndarray, distance: int, sequences: int) -> tuple[Tensor, Tensor]:
    """(B, T) with the passage read before, and (B, T) with another in its place; the same for every model."""
    draw = np.random.default_rng(distance)
    seen, unseen = [], []
    for _ in range(sequences):
        passage, other, filler = pieces(stream, (PASSAGE, PASSAGE, distance), draw)
        seen.append(np.concatenate([passage, filler, passage]))
        unseen.append(np.concatenate([other, filler, passage]))
    return torch.from_numpy(np.stack(seen)), torch.from_numpy(np.stack(unseen))


def pieces(stream: np.ndarray, lengths: tuple[int, ...], draw: np.random.Generator) -> list[np.ndarray]:
    """Stretches of these lengths that do not overlap: in a random order, with random gaps before and between."""
    order = draw.permutation(len(lengths))
    gaps = np.sort(draw.integers(0, len(stream) - sum(lengths) + 1, len(lengths)))
    stretches: dict[int, np.ndarray] = {}
    used = 0
    for gap, which in zip(gaps, order, strict=True):
        start = int(gap) + used
        stretches[int(which)] = stream[start : start + lengths[which]].astype(np.int64)
        used += lengths[which]
    return [stretches[which] for which in range(len(lengths))]


@torch.no_grad()
def rest_bits(model: LanguageModel, texts: Tensor) -> Tensor:
    """Bits a token that the rest of the passage costs at the end of each text (B, T): (B,)."""
    if isinstance(model, nn.Module):
        model.eval()
    costs = []
    for part in texts.split(AT_ONCE):
        part = part.to(model.device)
        scores, _ = model.score(part[:, :-1], part[:, 1:])
        costs.append(-scores[:, -(PASSAGE - CUE):].double().mean(1).cpu() / math.log(2))
    return torch.cat(costs)
