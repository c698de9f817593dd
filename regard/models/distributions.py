"""Whole distributions: what a language model says follows each token of a text, a few rows at a time.

T tokens · V vocabulary · D width
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.contract import LanguageModel, Source
from regard.data.tokens.vocabulary import PAD

HELD = 2**22                         # log-probabilities yielded at once, at most


def distributions(
    model: LanguageModel, tokens: Tensor, source: Source | None = None, window: int | None = None
) -> Iterator[Tensor]:
    """Yield (t, V) log-probabilities of what follows each of tokens (T,), on the CPU; all rows in their order.

    Each `window` of tokens is read by itself. A model that encodes a text in one pass does so at once.
    """
    whole = getattr(model, "distributions", None)
    if whole is not None:
        return whole(tokens, window)                                       # type: ignore[no-any-return]
    if model.reach is not None:
        return by_reach(model, tokens, model.reach)
    windows = tokens.to(model.device).split(window or len(tokens))
    if not model.in_one_pass:
        return by_steps(model, windows, source)
    neural: Any = model
    vectors = [neural.encode(part[None], None if source is None else neural.start(1, None, source))[0][0]
               for part in windows]
    return by_head(neural.head, torch.cat(vectors))


def by_head(head: Any, vectors: Tensor) -> Iterator[Tensor]:
    """From vectors (T, D), by a model's head."""
    for rows in vectors.split(max(1, HELD // head.weight.shape[0])):
        yield head(rows).cpu()


def by_reach(model: LanguageModel, tokens: Tensor, reach: int) -> Iterator[Tensor]:
    """By a model that remembers few tokens: many rows at once, each read from its last tokens on."""
    rows = F.pad(tokens, (reach - 1, 0), value=PAD).unfold(0, reach, 1)                # (T, reach)
    for some in rows.split(max(1, HELD // model.vocab)):
        state = model.start(len(some), reach)
        assert state is not None, "a step needs a state: start(batch, capacity)"
        yield model.step(some, state)[0].cpu()


def by_steps(model: LanguageModel, windows: tuple[Tensor, ...], source: Source | None = None) -> Iterator[Tensor]:
    """By any language model, a token at a time."""
    for part in windows:
        state = model.start(1, len(part), source)
        assert state is not None, "a step needs a state: start(batch, capacity)"
        for token in part:
            log_probs, state = model.step(token.view(1, 1), state)
            yield log_probs.cpu()
