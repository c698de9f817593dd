"""From token ids to text, piece by piece; an <unk> is spelled as the source word that it attends to most.

A translator over words has a token for only so many of them; any other is <unk>, in the source and in the target. For
names the word of the source is right. Vocabularies over bytes never need this.
T target tokens · L source tokens
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.tokens.piece_words import piece_spans, piece_words, words_of
from regard.data.tokens.vocabulary import FIRST, UNK, Tokenizer

WORDS = ("word", "whitespace")             # kinds of tokenizers whose tokens are words


def pieces_of(tokenizer: Tokenizer, tokens: Sequence[int], instead: dict[int, str] | None = None) -> list[str]:
    """Return what each token adds to the text, in one line; `instead` has the spelling of some positions."""
    named = instead or {}
    if named and tokenizer.kind in WORDS:                          # spaces depend on the words around them
        words: Any = type(tokenizer)
        tokenizer = words([named.get(position) or tokenizer.token(id) for position, id in enumerate(tokens)])
        tokens, named = range(FIRST, FIRST + len(tokens)), {}
    stream = tokenizer.stream()
    pieces = [named[position] if position in named else stream.push(int(id)) for position, id in enumerate(tokens)]
    rest = stream.flush()
    if rest:
        pieces[-1] += rest
    return [piece.replace("\n", " ") for piece in pieces]


def unknown_words(
    tokenizer: Tokenizer, sentence: str, source: Sequence[int], target: Tokenizer, tokens: Sequence[int],
    weights: NDArray[np.float32],
) -> dict[int, str]:
    """Return the spelling of each <unk>, by position, from weights (T, L) over the ids of the sentence."""
    if target.kind in WORDS:
        words = words_of(sentence, target.kind)
        of_word = np.array(piece_words(tokenizer, sentence, source, target.kind))
        known = of_word >= 0
        summed = np.zeros((len(words), len(weights)), weights.dtype)
        np.add.at(summed, of_word[known], weights[:, known].T)                 # each piece to its word, once
        read = summed.T
    else:
        spans, raw = piece_spans(tokenizer, sentence, source), sentence.encode()
        words, read = [raw[first:last].decode(errors="replace") for first, last in spans], weights
    return {position: words[int(read[position].argmax())] for position, id in enumerate(tokens) if id == UNK}
