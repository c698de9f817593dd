"""Parts of the looks at models that read a whole text by an encoder: masked models, classifiers and taggers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from regard.data.tokens.vocabulary import UNK
from regard.look.influence import evaluating
from regard.look.influence_tracks import encoder_tracks
from regard.look.look import Look, LookSide, Prediction, Request, Token
from regard.look.reading_tracks import count_maps, encoder_maps
from regard.look.track import Track
from regard.tasks.lm.look import MOST_NUMBERS
from regard.watching import Recorder, watch


def find_room(model: Any, most: int) -> int:
    """Return the number of tokens whose maps can be held; `most`, where the encoder has none."""
    heads, _ = count_maps(model)
    return isqrt(MOST_NUMBERS // heads) if heads else most


def keep_first(tokens: list[Token], limit: int, notes: list[str]) -> list[Token]:
    """Return the tokens that are read at once; of a long text the first, with a note."""
    if len(tokens) > limit:
        notes.append(f"the text has {len(tokens):,} tokens, and {limit:,} are read at once at most: the first are read")
    return tokens[:limit]


def make_look(
    trained: Any, request: Request, ids: Tensor, sides: dict[str, LookSide], predictions: tuple[Prediction, ...],
    notes: Sequence[str], before: Sequence[Track] = (), after: Sequence[Track] = (),
) -> Look:
    """Return the look at these tokens, with the maps of the encoder between other tracks; the last side is written."""
    model = trained.model

    def watched(closely: bool = False) -> Recorder:
        with torch.no_grad(), evaluating(model), watch(closely) as seen:
            model.encode(ids[None])
        return seen

    maps = encoder_maps(watched().readings, model.encoder.stack, len(ids))
    return Look(request, trained.family, trained.task.name, sides, [*sides][-1], predictions, (*before, *maps, *after),
                tuple(notes), in_place=True, watched=watched)


def label_influences(model: Any, ids: Tensor, targets: Callable[[Tensor, Tensor], Tensor], *, of: str,
                     rows: int) -> list[Track]:
    """Return the influence of every token on each label; `targets(texts, rows)` asks for that of one row a text."""

    def score(texts: Tensor, asked: Tensor) -> Tensor:
        """(n,): the log-probability of one label of each text; it is zero where nothing is asked."""
        return model.score(texts, targets(texts, asked))[0].sum(1)

    return encoder_tracks(model, model.encoder.embedding, lambda asked: ids.repeat(len(asked), 1), score, blank=UNK,
                          of=of, shape=(rows, len(ids)))
