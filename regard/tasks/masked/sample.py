"""A sample of a masked model in training: how it fills the first held-out text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from regard.data.tokens.vocabulary import FIRST
from regard.decoding.fill import keep_text
from regard.look.next_token import written
from regard.look.small_map import Sample, first_text, last_of, small_map
from regard.models.masked import MaskedModel
from regard.watching import watch

HIDDEN_EVERY, HIDDEN_OF = 5, 24


def fill_hidden(model: MaskedModel, corpus: Any, _: int | None) -> Callable[[], Sample]:
    """The first held-out text with every fifth token hidden, each told by itself."""
    t = corpus.tokenizer
    whole = first_text(corpus)[:min(HIDDEN_OF, model.context or HIDDEN_OF)]
    hidden = [place for place in range(min(2, len(whole) - 1), len(whole), HIDDEN_EVERY) if whole[place] >= FIRST]
    row = torch.tensor([[model.mask if place in hidden else id for place, id in enumerate(whole)]], device=model.device)

    def marked(tokens: Sequence[int], around: str) -> str:
        pieces = written(t, tokens)
        for place in hidden:
            inner = pieces[place].strip(" ")
            pieces[place] = pieces[place].replace(inner, around.format(inner), 1) if inner else around.format(inner)
        return "".join(pieces)

    def write() -> Sample:
        filled = list(whole)
        if hidden:
            found = keep_text(model, model.predict(row, torch.tensor([hidden], device=model.device)))[0].argmax(-1)
            for place, id in zip(hidden, found.tolist(), strict=True):
                filled[place] = id
        names = [f"[{piece}]" if place in hidden else piece for place, piece in enumerate(written(t, filled))]
        with watch() as seen:
            model.encode(row)
        return {"prompt": marked(whole, "___"), "text": marked(filled, "[{}]"), "reference": t.decode(whole),
                "map": small_map(names, names, *last_of(seen.readings, len(whole)))}

    return write
