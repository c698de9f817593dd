"""What each row predicts, from the model's distributions: how likely what follows is, and its rank among all tokens.

T rows · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.contract import LanguageModel
from regard.data.tokens.vocabulary import PAD, Tokenizer
from regard.look.parts import Said
from regard.models.head import Head
from regard.models.ngram import NGram

GUESS = -1                           # in the place of a target: nothing follows, so the model is asked
AT_ONCE = 2**22                      # log-probabilities held at a time


def said(
    parts: Iterable[Tensor], targets: Sequence[int], tokenizer: Tokenizer, banned: Sequence[int] = ()
) -> tuple[Said, ...]:
    """One for each row, from log-probabilities (t, V) some rows at a time; `banned` tokens are never a guess."""
    found: list[Said] = []
    for part in parts:
        for log_probs, target in zip(part, targets[len(found):len(found) + len(part)], strict=True):
            found.append(said_by(log_probs, target, tokenizer, banned))
    assert len(found) == len(targets), "there is a distribution for each row"
    return tuple(found)


def said_by(log_probs: Tensor, target: int, tokenizer: Tokenizer, banned: Sequence[int] = ()) -> Said:
    """Of one row (V,)."""
    id = target if target != GUESS else best_guess(log_probs, banned)
    own = log_probs[id]
    bits = -float(own) / math.log(2)
    return Said(id, shown(tokenizer, id), bits + 0.0, math.exp(own), int((log_probs > own).sum()) + 1, target == GUESS)


def best_guess(log_probs: Tensor, banned: Sequence[int]) -> int:
    allowed = log_probs.clone()
    allowed[list(banned)] = -math.inf
    return int(allowed.argmax())


def shown(tokenizer: Tokenizer, id: int) -> str:
    """A token's name; one beyond the tokenizer's own is <mask>, or belongs to the other language of a shared head."""
    return tokenizer.token(id) if id < tokenizer.vocab_size else "<mask>"


def by_head(head: Head, vectors: Tensor) -> Iterator[Tensor]:
    """(t, V) log-probabilities from vectors (T, D), never too many at once."""
    rows = max(1, AT_ONCE // head.weight.shape[0])
    for some in vectors.split(rows):
        yield head(some).cpu()


def by_steps(model: LanguageModel, tokens: Tensor) -> Iterator[Tensor]:
    """The same from tokens (T,) by any language model, a step at a time."""
    state = model.start(1, len(tokens))
    assert state is not None
    for token in tokens:
        log_probs, state = model.step(token.view(1, 1), state)
        yield log_probs.cpu()


def by_counts(model: NGram, tokens: Tensor) -> Iterator[Tensor]:
    """The same by an n-gram, which remembers little: many rows at once, each read from its last words on."""
    reach = max(1, model.order - 1)
    words = np.pad(tokens.numpy(), (reach - 1, 0), constant_values=PAD)
    rows = torch.from_numpy(np.lib.stride_tricks.sliding_window_view(words, reach).copy())       # (T, reach)
    for some in rows.split(max(1, AT_ONCE // model.vocab)):
        yield model.step(some, model.start(len(some), reach))[0]
