"""Filling blanks: the likeliest tokens for a gap in a text, given both sides of it.

A blank of one token is predicted directly. In one of several, the position that the model is surest of is filled first,
the next one given it, and so on, and a beam of the likeliest fillings goes on. The probability of a filling is the
product of these conditional ones; all of it is on the tokens of text, so that no <eos> or <mask> is ever filled in.

B beams · T time · V vocabulary
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.errors import DataError
from regard.models.masked import MaskedModel

BLANK = re.compile(r"_{3,}|\[MASK\]|<mask>")
# Tokens tried for a blank whose length is not given: words are one token, their parts and letters several.
LONGEST = {"word": 1, "whitespace": 1, "bpe": 4, "unigram": 4, "foreign": 4, "char": 10, "byte": 10}
JOINED = ("bpe", "unigram", "foreign")             # in these a token carries the space before it


@dataclass(frozen=True)
class Filling:
    """A text for a blank, and its probability."""

    text: str
    probability: float
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Filled:
    """A text with its blanks filled, and for each blank the likeliest fillings, the other blanks left open."""

    text: str
    blanks: list[list[Filling]]


FilledRow = tuple[Tensor, float]       # a row of tokens (T,), and the log-probability of the fillings


@torch.no_grad()
def fill_blanks(
    model: MaskedModel, tokenizer: Tokenizer, text: str, *, top: int = 5, length: int | None = None,
    end: bool = False,
) -> Filled:
    """Fill every blank of the text: `length` tokens each, or as many as are likeliest on average, token by token.

    With `end` the text is followed by <eos>, as the lines were that the model was trained on.
    """
    pieces = split_at_blanks(tokenizer, text)
    around = [tokenizer.encode(piece).tolist() for piece in pieces]
    around[-1] += [tokenizer.eos] * end
    lengths = [length or 1] * (len(pieces) - 1)
    blanks = []
    for blank in range(len(lengths)):                    # the blanks before it have their lengths, those after it one
        tried = range(1, LONGEST[tokenizer.kind] + 1) if length is None else [length]
        options = {}
        for lengths[blank] in tried:
            row, places = lay_out(model, around, lengths)
            options[lengths[blank]] = fill_places(model, row, places[blank], beams=top), places[blank]
        lengths[blank] = max(options, key=lambda tokens: options[tokens][0][0][1] / tokens)
        beams, positions = options[lengths[blank]]
        blanks.append([make_filling(tokenizer, row[positions].tolist(), log_prob) for row, log_prob in beams])
    row, places = lay_out(model, around, lengths)
    best, _ = fill_places(model, row, [position for blank in places for position in blank], beams=top)[0]
    written = [tokenizer.decode(best[positions].tolist()) for positions in places]
    return Filled("".join(a + b for a, b in zip(pieces, [*written, ""], strict=True)), blanks)


def make_filling(tokenizer: Tokenizer, tokens: list[int], log_prob: float) -> Filling:
    return Filling(tokenizer.decode(tokens).strip(" "), math.exp(log_prob), tuple(tokens))


def split_at_blanks(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the text before, between and behind the blanks; a space that belongs to a filling is left out."""
    pieces = BLANK.split(text)
    if len(pieces) == 1:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise DataError(f"there is no blank in {shown!r}: write ___ or [MASK] where something is missing")
    if tokenizer.kind in JOINED:
        pieces[:-1] = [piece.removesuffix(" ") for piece in pieces[:-1]]
    return pieces


def lay_out(
    model: MaskedModel, around: Sequence[list[int]], lengths: Sequence[int]
) -> tuple[Tensor, list[list[int]]]:
    """Return the tokens with so many <mask> in each blank, and the positions of these; of a long text, a window around
    them."""
    row, places = list(around[0]), []
    for length, piece in zip(lengths, around[1:], strict=True):
        places.append(list(range(len(row), len(row) + length)))
        row += [model.mask] * length + piece
    if model.context is not None and len(row) > model.context:
        start = window_start(len(row), places[0][0], places[-1][-1] + 1, model.context)
        row = row[start : start + model.context]
        places = [[position - start for position in blank] for blank in places]
    return torch.tensor(row, device=model.device), places


def window_start(length: int, first: int, last: int, context: int) -> int:
    """Return the start of a window of the context that holds [first, last), with as much on either side."""
    spare = context - (last - first)
    if spare < 0:
        raise DataError(f"the blanks and what stands between them are {last - first} tokens, and this model reads at "
                        f"most {context} at once: fill fewer blanks at a time")
    left = max(spare // 2, spare - (length - last))
    return max(0, first - left)


def fill_places(model: MaskedModel, row: Tensor, places: Sequence[int], *, beams: int) -> list[FilledRow]:
    """Return the likeliest fillings of these positions, best first; each time the surest position is filled."""
    hypotheses: list[tuple[Tensor, float, tuple[int, ...]]] = [(row, 0.0, tuple(places))]
    for _ in places:
        rows = torch.stack([each for each, _, _ in hypotheses])                              # (B, T)
        still = torch.tensor([left for _, _, left in hypotheses], device=row.device)         # (B, N)
        log_probs = keep_text(model, model.predict(rows, still))                               # (B, N, V)
        surest = log_probs.amax(-1).argmax(-1).tolist()
        longer: dict[tuple[int, ...], tuple[Tensor, float, tuple[int, ...]]] = {}
        for beam, (tokens, before, left) in enumerate(hypotheses):
            place = left[surest[beam]]
            values, ids = log_probs[beam, surest[beam]].topk(min(beams, model.mask - FIRST))
            for value, id in zip(values.tolist(), ids.tolist(), strict=True):
                filled = tokens.clone()
                filled[place] = id
                key = tuple(filled.tolist())                     # the same filling may be reached in another order
                if key not in longer or longer[key][1] < before + value:
                    longer[key] = filled, before + value, tuple(each for each in left if each != place)
        hypotheses = sorted(longer.values(), key=lambda each: -each[1])[:beams]
    return [(tokens, log_prob) for tokens, log_prob, _ in hypotheses]


def keep_text(model: MaskedModel, log_probs: Tensor) -> Tensor:
    """Return the log-probabilities with all probability on tokens of text."""
    log_probs = log_probs.double()
    log_probs[..., :FIRST] = log_probs[..., model.mask] = -math.inf
    return log_probs.log_softmax(-1)
