"""Small maps of a model in training: at most 40 x 40 weights of the last layer that has any, beside what it writes.

The model is given the held-out text that really stood there, so that the rows are the same each time and attention can
be seen emerging. Nothing here draws from a generator or changes the model.
R rows · C columns · T time · L source length
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.contract import LanguageModel, Source
from regard.data.batching.pair_batches import Sentences
from regard.decoding.source_attention import reads_source
from regard.look.attention_alignment import read_of_source
from regard.watching import Reading, watch

MOST = 40                      # rows and columns of a map
PROMPT, NEW = 12, 60           # tokens of a text that are given, and that are written
LOOKED_AT = 200                # held-out texts or pairs among which one is looked for that is neither short nor long
GRID = 6                       # patches along a side of a picture's map: 36 columns

Sample = dict[str, Any]        # a line of samples.jsonl: kind, prompt, text, reference, map
Weights = NDArray[np.float32]


# ------------------------------------------------------------------------------------- what is held out


def first_text(corpus: Any) -> list[int]:
    """The first held-out document that says something, without its end."""
    ends = [int(end) for end in corpus.valid.ends[:LOOKED_AT]]
    spans = zip([0, *ends[:-1]], ends, strict=True)
    first, last = next(((a, b) for a, b in spans if b - a > 3), (0, len(corpus.valid.tokens)))
    ids = [int(id) for id in corpus.valid.tokens[first:min(last, first + PROMPT + NEW + MOST)]]
    return [id for id in ids if id != corpus.tokenizer.eos] or [corpus.tokenizer.eos]


def target_of(corpus: Any, number: int, context: int) -> list[int]:
    """The ids of a held-out target, its end included; of one too long, what fits."""
    side = Sentences(corpus.valid)
    ids = side.data[side.starts[number]:side.starts[number] + side.lengths[number]].astype(np.int64).tolist()
    return ids[:min(MOST, context)]


# ------------------------------------------------------------------------------------------------- maps


def coarser(weights: Weights) -> tuple[Weights, list[int]]:
    """(R, patches) added up to at most GRID patches along a side, and how many there are now."""
    side = round(weights.shape[1] ** 0.5)
    block = -(-side // GRID)
    square = weights.reshape(len(weights), side, side)
    starts = np.arange(0, side, block)
    square = np.add.reduceat(np.add.reduceat(square, starts, 1), starts, 2)
    return square.reshape(len(weights), -1), [len(starts), len(starts)]


def read_of_itself(model: LanguageModel, tokens: Tensor) -> tuple[Weights | None, str]:
    """The weights of the last layer that records any, and their kind."""
    if not isinstance(model, torch.nn.Module):
        return None, ""
    with watch() as seen:
        model.score(tokens, torch.zeros_like(tokens), model.start(len(tokens)))
    return last_of(seen.readings, tokens.shape[1])


def last_of(readings: Sequence[Reading], time: int) -> tuple[Weights | None, str]:
    """(T, T), the mean over the heads of the last reading; of a signed kernel its size, beside the largest."""
    square = [each for each in readings if each.kind in ("weights", "kernel") and each.values.ndim == 4
              and tuple(each.values.shape[-2:]) == (time, time)]
    if not square:
        return None, ""
    values = square[-1].values[0].float().abs().mean(0).cpu().numpy()
    if square[-1].kind == "kernel":
        values = values / max(float(values.max()), 1e-30)
    return values, square[-1].kind


def read_of_given(model: Any, source: Source, bos: int, said: Sequence[int]) -> Weights | None:
    """(T, L): what each token said read of the source, in the last layer that reads it."""
    if not reads_source(model) or not said:
        return None
    tokens = torch.tensor([[bos, *said[:-1]]], device=model.device)
    _, weights = read_of_source(model, source, tokens)[-1]
    return weights[0].float().mean(0).cpu().numpy()


def small_map(
    rows: Sequence[str], columns: Sequence[str], weights: Weights | None, kind: str = "weights"
) -> dict[str, Any] | None:
    """At most 40 x 40 of it, as bytes of the square root of each weight, in base64."""
    if weights is None:
        return None
    cut = weights[:MOST, :MOST]
    shades = np.rint(255 * np.sqrt(np.clip(cut, 0, 1))).astype(np.uint8)
    return {"kind": kind, "rows": list(rows[:MOST]), "columns": list(columns[:MOST]), "shape": list(shades.shape),
            "shades": base64.b64encode(shades.tobytes()).decode()}
