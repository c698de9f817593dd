"""A sample of a translator or summariser in training: a held-out source, and what it writes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.contract import Source
from regard.data.batching.pair_batches import Sentences
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import text_batches
from regard.decoding.special_tokens import pair_special_tokens
from regard.decoding.stream import padded
from regard.look.attention_alignment import spell
from regard.look.next_token import written
from regard.look.small_map import LOOKED_AT, MOST, Sample, read_of_given, small_map, target_of


def translate_source(model: Any, corpus: Any, context: int | None) -> Callable[[], Sample]:
    """A held-out source of middling length, translated word after likeliest word."""
    t, side = corpus.tokenizer, Sentences(corpus.source_valid)
    assert context is not None
    number = middling(side.lengths[:LOOKED_AT], min(MOST, context))
    pair = corpus.held_out(number + 1)[number]
    source = side.data[side.starts[number]:side.starts[number] + side.lengths[number]].astype(np.int64).tolist()
    special_tokens = pair_special_tokens(t, model)
    columns, right = written(t.source, source), target_of(corpus, number, context)
    rows = written(t.target, right)

    def write() -> Sample:
        if len(source) > context:
            return {"prompt": pair.source, "text": "", "reference": pair.target, "map": None}
        batches = text_batches(model, [source], context, beams=1)
        (found,) = search_batches(model, batches, special_tokens, BeamOptions(width=1))
        ((best,),) = spell(model, t, [pair.source], [source], [found])
        items, lengths = padded([source], model.device)
        weights = read_of_given(model, Source(items, lengths), t.bos, right)
        return {"prompt": pair.source, "text": "".join(best), "reference": pair.target,
                "map": small_map(rows, columns, weights)}

    return write


def middling(lengths: NDArray[np.int64], most: int) -> int:
    """The first sentence of six tokens to `most`; where there is none, the shortest."""
    fit = np.flatnonzero((lengths >= 6) & (lengths <= most))
    return int(fit[0]) if len(fit) else int(lengths.argmin())
