"""Words as units: `whitespace` splits at spaces and nowhere else, `word` splits off punctuation too.

Both forget how the words were spaced (they are not lossless), and a word that was not seen in training, or
that reads like a special token, becomes `<unk>`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.corpora.word_split import WORDS, split_words
from regard.data.tokens.vocabulary import (
    FIRST,
    SPECIALS,
    UNK,
    Ids,
    StreamDecoder,
    Tokenizer,
    check_text,
    huggingface,
    split_at,
    tokens_in_order,
    word_level,
)
from regard.data.tokens.word_index import WordIndex

LONG = 10_000                                             # characters, from which on the index is quicker
SPACES = r"[ \t\n]+"
# The library finds special tokens in the vocabulary, where they have their ids: <eos> between spaces would be one.
LIKE_SPECIALS = {"type": "Replace", "content": SPECIALS[UNK],
                 "pattern": {"Regex": rf"(?<![^ \t\n])(?:{'|'.join(SPECIALS)})(?![^ \t\n])"}}

CLOSING = frozenset(".,;:!?%)]}…’”»、。，！？；：")       # no space before these
OPENING = frozenset("([{“«‘¿¡#$£€@")                      # no space after these
JOINING = frozenset("/-–—")                               # no space on either side, between words
QUOTES = frozenset("\"")                                   # opening and closing in turn


class WhitespaceTokenizer(Tokenizer):
    """One id for each string between spaces, tabs or newlines."""

    kind = "whitespace"
    spaces_apart = True
    pattern, behavior, invert = SPACES, "Removed", False
    normalizer: dict[str, Any] | None = LIKE_SPECIALS

    def __init__(self, words: Sequence[str]):
        self.words = list(words)
        self.vocab_size = FIRST + len(self.words)
        self._ids = {word: FIRST + index for index, word in enumerate(self.words)}

    def split(self, text: str) -> list[str]:
        words = text.replace("\n", " ").replace("\t", " ").split(" ")
        return list(filter(None, words))

    def encode(self, text: str) -> Ids:
        if len(check_text(text)) < LONG or not self.index.distinct:
            return self.encode_by_definition(text)
        return self.index.encode(text.encode())

    def encode_by_definition(self, text: str) -> Ids:
        find = self._ids.get
        return np.array([find(word, UNK) for word in self.split(text)], dtype=np.int32)

    def encode_lines(self, texts: Sequence[str]) -> tuple[Ids, NDArray[np.int64]]:
        lines = check_text("\n".join([*texts, ""]))
        if len(lines) >= LONG and self.index.distinct:
            tokens, ends = self.index.encode_lines(lines.encode())
            if len(ends) == len(texts):                  # no text is more than one line
                return tokens, ends
        return super().encode_lines(texts)

    @cached_property
    def index(self) -> WordIndex:
        """For long texts: all words at once."""
        return WordIndex(self.words)

    def token(self, id: int) -> str:
        return SPECIALS[id] if id < FIRST else self.words[id - FIRST]

    def stream(self, after: Iterable[int] = ()) -> StreamDecoder:
        return _SpacedStream(self, after)

    def space_between(self, left: str, right: str, odd_quote: bool) -> bool:
        """True if a space goes between two words when text is put together again."""
        return True

    def to_dict(self) -> dict[str, Any]:
        value = huggingface(word_level(self.words), split_at(self.pattern, self.behavior, self.invert), None)
        return {**value, "normalizer": self.normalizer}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> WhitespaceTokenizer:
        return cls(tokens_in_order(value["model"]["vocab"]))


class WordTokenizer(WhitespaceTokenizer):
    """One id for each word, number or punctuation mark."""

    kind = "word"
    pattern, behavior, invert = WORDS, "Removed", True
    normalizer = None                        # it cuts <eos> into three

    def encode(self, text: str) -> Ids:
        return self.encode_by_definition(check_text(text))

    def encode_lines(self, texts: Sequence[str]) -> tuple[Ids, NDArray[np.int64]]:
        return Tokenizer.encode_lines(self, texts)

    def split(self, text: str) -> list[str]:
        return split_words(text)

    def space_between(self, left: str, right: str, odd_quote: bool) -> bool:
        if right in QUOTES:
            return odd_quote                     # an opening quote stands off, a closing one does not
        if left in QUOTES and right not in CLOSING:
            return not odd_quote
        return not (right in CLOSING or left in OPENING or left in JOINING or right in JOINING)


class _SpacedStream(StreamDecoder):
    """Puts words together again, deciding each space from the two words around it."""

    def __init__(self, tokenizer: WhitespaceTokenizer, after: Iterable[int]):
        self.tokenizer = tokenizer
        self.left: str | None = None
        self.odd_quote = False                   # inside a quotation
        for id in after:
            self.push(int(id))

    def push(self, id: int) -> str:
        if id < FIRST:
            return ""
        word = self.tokenizer.token(id)
        if word in QUOTES:
            self.odd_quote = not self.odd_quote
        space = self.left is not None and self.tokenizer.space_between(self.left, word, self.odd_quote)
        self.left = word
        return f" {word}" if space else word


def train_words(kind: str, texts: Iterable[str], vocab: int | None) -> WhitespaceTokenizer:
    """Counts every word of all the texts; the most frequent come first, then in alphabetical order."""
    tokenizer = {"whitespace": WhitespaceTokenizer, "word": WordTokenizer}[kind]
    split = tokenizer([]).split
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(split(text))
    for name in SPECIALS:
        counts.pop(name, None)                   # a word that reads like a special stays out, as <unk>
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return tokenizer(ordered[:None if vocab is None else vocab - FIRST])
