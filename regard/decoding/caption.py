"""From pictures to captions, in token ids: many at once. What one picture gives does not depend on the others.

S pictures · k beams
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from regard.contract import LanguageModel, Source
from regard.decoding.beam import Beam, Hypothesis, beam_search
from regard.decoding.marks import Marks

AT_ONCE = {"cpu": 256, "cuda": 4096}       # pictures, their beams counted


def pixels_of(images: NDArray[np.uint8], device: torch.device) -> torch.Tensor:
    """(S, height, width, 3) as files have them, to (S, 3, height, width) as models read them."""
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).to(device)


def caption_tokens(
    model: LanguageModel, images: NDArray[np.uint8], *, marks: Marks, context: int, how: Beam | None = None,
    at_once: int | None = None, on_batch: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The best captions of each picture, best first, of at most `context` tokens with their end."""
    how = how or Beam()
    rows = max(1, (at_once or AT_ONCE.get(model.device.type, AT_ONCE["cpu"])) // how.width)
    found: list[list[Hypothesis]] = []
    for first in range(0, len(images), rows):
        some = images[first:first + rows]
        found += beam_search(model, Source(pixels_of(some, model.device)), limits=[context] * len(some),
                             begin=marks.begin, end=marks.end, how=how, banned=marks.banned)
        if on_batch is not None:
            on_batch(len(found))
    return found
