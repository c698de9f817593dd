"""A sample of a classifier in training: the first held-out text, and the labels that it gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard.look.next_token import written
from regard.look.small_map import MOST, Sample, last_of, small_map
from regard.models.label_models import TextLabelModel
from regard.watching import watch

SHOWN = 3                      # labels, likeliest first


def classify_text(model: TextLabelModel, corpus: Any, context: int | None) -> Callable[[], Sample]:
    """Return what says the likeliest labels of the first held-out text, with their probabilities."""
    label, text = next(corpus.valid.lines())
    tokenizer = corpus.tokenizer
    ids = [*tokenizer.text.encode(text).tolist(), tokenizer.eos][:context]
    row = torch.tensor([ids], device=model.device)
    names = [*written(tokenizer.text, ids[:-1]), tokenizer.token(ids[-1])]

    def write() -> Sample:
        with watch() as seen:
            found = model.predict(row)[0, 0].exp().topk(min(SHOWN, len(tokenizer.labels)))
        guesses = [f"{tokenizer.labels[id]} {p:.1%}"
                   for p, id in zip(found.values.tolist(), found.indices.tolist(), strict=True)]
        shown = small_map(names, names, *last_of(seen.readings, len(ids))) if len(ids) <= MOST else None
        return {"prompt": text, "text": ", ".join(guesses), "reference": label, "map": shown}

    return write
