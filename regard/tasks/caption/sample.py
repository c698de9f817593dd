"""A sample of a captioner in training: the first held-out picture, and what it says of it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.contract import Source
from regard.corpora.shapes import png
from regard.data.tokens.vocabulary import Tokenizer
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import picture_batches, pixels_of
from regard.decoding.special_tokens import text_special_tokens
from regard.look.next_token import written
from regard.look.small_map import Sample, coarser, read_of_given, small_map, target_of


def caption_picture(model: Any, corpus: Any, context: int | None) -> Callable[[], Sample]:
    """The first held-out picture, captioned word after likeliest word."""
    assert context is not None
    t: Tokenizer = corpus.tokenizer
    image = np.asarray(corpus.source_valid.images[int(corpus.source_valid.rows[0])])
    special_tokens = text_special_tokens(t)
    picture, right = base64.b64encode(png(image)).decode(), target_of(corpus, 0, context)

    def write() -> Sample:
        batches = picture_batches(model, image[None], context, beams=1)
        ((hypothesis,),) = search_batches(model, batches, special_tokens, BeamOptions(width=1))
        weights = read_of_given(model, Source(pixels_of(image[None], model.device)), t.bos, right)
        grid = None
        if weights is not None:
            weights, grid = coarser(weights)
        columns = [] if grid is None else [f"patch {at + 1}" for at in range(grid[0] * grid[1])]
        shown = small_map(written(t, right), columns, weights)
        return {"prompt": "", "picture": picture, "text": t.decode(hypothesis.tokens), "reference": corpus.captions[0],
                "map": None if shown is None else shown | {"grid": grid}}

    return write
