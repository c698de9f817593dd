"""Batches of sources for decoding: texts in batches of about one length, or pictures.

A batch of texts holds as many as a budget of tokens allows, beams counted. Neither the size of a batch nor its company
nor the order of the sources changes a result: beams do not know of each other, and sampling noise is a function of the
source's number.
S sources · L source length
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.contract import LanguageModel, Source
from regard.decoding.stream import padded
from regard.errors import SettingError

AT_ONCE, MOST_AT_ONCE = 4096, 262_144      # tokens of sources, pads and beams included: on a CPU, and on a large GPU
MEMORY = 2**19                             # bytes of a GPU that a token may take, its share of all caches included
PICTURES = {"cpu": 256, "cuda": 4096}      # pictures at once, beams counted
MORE, TIMES = 20, 2                        # a target may have so many tokens, and so many times those of its source

Result = TypeVar("Result")


@dataclass(frozen=True)
class SourceBatch:
    """Some sources, read together."""

    numbers: list[int]                     # of the sources, among all
    source: Source
    limits: list[int]                      # most tokens of each target, its end included


def text_batches(
    model: LanguageModel, sources: Sequence[Sequence[int]], context: int, beams: int, at_once: int | None = None
) -> Iterator[SourceBatch]:
    """Yield batches of token ids, ends included; no source or target has more than `context` tokens."""
    for numbers in in_batches([len(source) for source in sources], budget(model, at_once) // beams):
        texts = [sources[number] for number in numbers]
        yield SourceBatch(numbers, Source(*padded(texts, model.device)),
                          [longest(len(text), context, model) for text in texts])


def picture_batches(
    model: LanguageModel, images: NDArray[np.uint8], context: int, beams: int, at_once: int | None = None
) -> Iterator[SourceBatch]:
    """Yield batches of pictures (N, height, width, 3), whose captions have at most `context` tokens."""
    rows = max(1, (at_once or PICTURES.get(model.device.type, PICTURES["cpu"])) // beams)
    for first in range(0, len(images), rows):
        some = images[first:first + rows]
        yield SourceBatch(list(range(first, first + len(some))), Source(pixels_of(some, model.device)),
                          [context] * len(some))


def run_batches(
    batches: Iterable[SourceBatch], decode: Callable[[SourceBatch], list[Result]],
    on_batch: Callable[[int], None] | None = None,
) -> list[Result]:
    """Decode every batch; return the results in the order of the sources' numbers."""
    results: dict[int, Result] = {}
    for batch in batches:
        results |= zip(batch.numbers, decode(batch), strict=True)
        if on_batch is not None:
            on_batch(len(results))
    return [results[number] for number in sorted(results)]


def pixels_of(images: NDArray[np.uint8], device: torch.device) -> torch.Tensor:
    """Return (S, height, width, 3), as files have them, as (S, 3, height, width), as models read them."""
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).to(device)


def longest(source: int, context: int, model: LanguageModel) -> int:
    """Return the most tokens of a target, its end included: generous, but within what the model can read."""
    limit = min(TIMES * source + MORE, context)
    if model.one_text and model.context is not None:
        limit = min(limit, model.context - source)
    return max(1, limit)


def budget(model: LanguageModel, at_once: int | None) -> int:
    """Return the source tokens read at once, beams counted: the user's number, or one for the device."""
    if at_once is not None and at_once < 1:
        raise SettingError(f"--batch {at_once}: must be at least 1 token")
    if at_once or model.device.type != "cuda":
        return at_once or AT_ONCE
    return int(min(MOST_AT_ONCE, max(AT_ONCE, torch.cuda.get_device_properties(model.device).total_memory // MEMORY)))


def in_batches(lengths: Sequence[int], at_once: int) -> Iterator[list[int]]:
    """Yield the numbers of sources in batches of similar length, the longest first: what memory cannot hold shows
    early."""
    order = sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))
    first = 0
    while first < len(order):
        rows = max(1, at_once // max(1, lengths[order[first]]))
        yield order[first:first + rows]
        first += rows
