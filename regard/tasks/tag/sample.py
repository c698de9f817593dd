"""A sample of a tagger in training: the first held-out sentence, with the tags that it gives now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard.data.labels.label_batches import LabelledRows
from regard.look.small_map import LOOKED_AT, Sample, last_of, small_map
from regard.watching import watch


def tag_sentence(model: Any, corpus: Any, context: int | None) -> Callable[[], Sample]:
    """The first held-out sentence of a few words."""
    assert context is not None
    t, rows = corpus.tokenizer, LabelledRows(corpus.valid, context)
    lines = [pair for pair, _ in zip(corpus.valid.lines(), range(LOOKED_AT), strict=False)]
    number = next((at for at, (_, text) in enumerate(lines) if 4 <= len(text.split()) <= 20), 0)
    tags, words = (side.split() for side in lines[number])
    batch = rows.batch(torch.tensor([number]).numpy()).to(model.device)
    places = batch.is_real()[0].nonzero()[:, 0]                                    # of the words that were read
    pieces = [t.token(id) for id in batch.tokens[0].tolist()]

    def write() -> Sample:
        with watch() as seen:
            found = model.predict(batch.tokens, batch.lengths)[0, places].argmax(-1).tolist()
        said = [t.labels[label] for label in found]
        return {"prompt": " ".join(words), "text": slashed(words, said), "reference": slashed(words, tags),
                "map": small_map(pieces, pieces, *last_of(seen.readings, len(pieces)))}

    return write


def slashed(words: list[str], tags: list[str]) -> str:
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=False))
