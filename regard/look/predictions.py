"""Predictions of rows, from a model's distributions: the probability of what follows, and its rank among all tokens.

T rows · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from torch import Tensor

from regard.data.tokens.vocabulary import Tokenizer
from regard.look.look import Prediction

GUESS = -1                           # in the place of a target: nothing follows, so the model is asked


def make_predictions(
    parts: Iterable[Tensor], targets: Sequence[int], tokenizer: Tokenizer, banned: Sequence[int] = ()
) -> tuple[Prediction, ...]:
    """One for each row, from log-probabilities (t, V) some rows at a time; `banned` tokens are never a guess."""
    found: list[Prediction] = []
    for part in parts:
        for log_probs, target in zip(part, targets[len(found):len(found) + len(part)], strict=True):
            found.append(make_prediction(log_probs, target, tokenizer, banned))
    assert len(found) == len(targets), "there is a distribution for each row"
    return tuple(found)


def make_prediction(log_probs: Tensor, target: int, tokenizer: Tokenizer, banned: Sequence[int] = ()) -> Prediction:
    """The prediction of one row of log-probabilities (V,)."""
    id = target if target != GUESS else best_guess(log_probs, banned)
    own = log_probs[id]
    bits = -float(own) / math.log(2)
    rank = int((log_probs > own).sum()) + 1
    return Prediction(id, name_token(tokenizer, id), bits + 0.0, math.exp(own), rank, target == GUESS)


def best_guess(log_probs: Tensor, banned: Sequence[int]) -> int:
    allowed = log_probs.clone()
    allowed[list(banned)] = -math.inf
    return int(allowed.argmax())


def name_token(tokenizer: Tokenizer, id: int) -> str:
    """A token's name; one beyond the tokenizer's own is <mask>, or belongs to the other language of a shared head."""
    return tokenizer.token(id) if id < tokenizer.vocab_size else "<mask>"
