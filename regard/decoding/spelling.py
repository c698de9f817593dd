"""From token ids to text, piece by piece, with something better than nothing for words that have no token.

A translator over words knows only so many of them; any other is <unk>, in the source and in the target. An <unk> that
it writes is spelled as the source word it read most, which for names is right. Vocabularies over bytes never need this.
T target tokens · L source tokens
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.tokens.piece_words import piece_spans, piece_words, words_of
from regard.data.tokens.vocabulary import FIRST, UNK, Tokenizer
from regard.data.tokens.words import WhitespaceTokenizer


def pieces_of(tokenizer: Tokenizer, tokens: Sequence[int], instead: dict[int, str] | None = None) -> list[str]:
    """What each token adds to the text, in one line; `instead` says what stands at some places, counted from 0."""
    named = instead or {}
    if named and isinstance(tokenizer, WhitespaceTokenizer):       # spaces depend on the words around them
        tokenizer = type(tokenizer)([named.get(at) or tokenizer.token(id) for at, id in enumerate(tokens)])
        tokens, named = range(FIRST, FIRST + len(tokens)), {}
    stream = tokenizer.stream()
    pieces = [named[at] if at in named else stream.push(int(id)) for at, id in enumerate(tokens)]
    rest = stream.flush()
    if rest:
        pieces[-1] += rest
    return [piece.replace("\n", " ") for piece in pieces]


def unknown_words(
    tokenizer: Tokenizer, sentence: str, source: Sequence[int], target: Tokenizer, tokens: Sequence[int],
    weights: NDArray[np.float32],
) -> dict[int, str]:
    """For each <unk> among the tokens what it is spelled as, from (T, L) weights over the ids of the sentence."""
    if isinstance(target, WhitespaceTokenizer):
        words = words_of(sentence, target.kind)
        of_word = np.array(piece_words(tokenizer, sentence, source, target.kind))
        known = of_word >= 0
        summed = np.zeros((len(words), len(weights)), weights.dtype)
        np.add.at(summed, of_word[known], weights[:, known].T)                 # each piece to its word, once
        read = summed.T
    else:
        spans, raw = piece_spans(tokenizer, sentence, source), sentence.encode()
        words, read = [raw[first:last].decode(errors="replace") for first, last in spans], weights
    return {at: words[int(read[at].argmax())] for at, id in enumerate(tokens) if id == UNK}
