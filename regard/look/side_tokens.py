"""The tokens of a side: how each is shown, which characters of the text it stands for, and the word it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.data.tokens.piece_words import Span, piece_spans, piece_words, written_words
from regard.data.tokens.vocabulary import Tokenizer
from regard.look.look import LookSide, Token


def special_token(tokenizer: Tokenizer, id: int) -> Token:
    """A token that stands for no text: <bos>, <eos>."""
    return Token(id, tokenizer.token(id), special=True)


def read_tokens(tokenizer: Tokenizer, text: str, ids: Sequence[int], words: str = "word") -> list[Token]:
    """The tokens that a text was encoded to."""
    spans = character_spans(text, piece_spans(tokenizer, text, ids))
    numbers = piece_words(tokenizer, text, ids, words)
    return [Token(id, tokenizer.token(id), start, end, word=number)
            for id, (start, end), number in zip(ids, spans, numbers, strict=True)]


def written_tokens(tokenizer: Tokenizer, ids: Sequence[int], pieces: Sequence[str]) -> list[Token]:
    """Tokens that a model wrote; `pieces` are what each of them added to the text."""
    found, end = [], 0
    for id, piece, word in zip(ids, pieces, written_words(pieces), strict=True):
        start, end = end, end + len(piece)
        found.append(Token(id, tokenizer.token(id), start, end, word=word))
    return found


def move_tokens(tokens: Sequence[Token], characters: int, words: int) -> list[Token]:
    """The tokens so many characters and words further on; what stands for no text stays nowhere."""
    return [replace(token, start=token.start + characters if token.start >= 0 else -1,
                    end=token.end + characters if token.end >= 0 else -1,
                    word=token.word + words if token.word >= 0 else -1) for token in tokens]


def character_spans(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans of bytes as spans of characters; a token that is a part of a character stands for the whole of it."""
    sizes = np.array([len(char.encode()) for char in text], np.int64)
    first = np.append(0, np.cumsum(sizes))                       # the byte at which each character begins, and the end
    starts = np.searchsorted(first, [start for start, _ in spans], "right") - 1
    ends = np.searchsorted(first, [end for _, end in spans], "left")
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def text_side(name: str, title: str, text: str, tokens: Sequence[Token]) -> LookSide:
    return LookSide(name, title, text, tuple(tokens))


def word_side(name: str, title: str, words: Sequence[tuple[int, str]], gap: str = " ") -> LookSide:
    """A side of words, each by its id and its text, one after another."""
    tokens, end = [], -len(gap)
    for number, (id, word) in enumerate(words):
        start, end = end + len(gap), end + len(gap) + len(word)
        tokens.append(Token(id, word, start, end, word=number))
    return text_side(name, title, gap.join(word for _, word in words), tokens)


def patch_tokens(grid: tuple[int, int]) -> tuple[Token, ...]:
    """A token for each patch of a picture, named by its row and column."""
    rows, columns = grid
    return tuple(Token(number, f"row {number // columns + 1}, column {number % columns + 1}")
                 for number in range(rows * columns))
