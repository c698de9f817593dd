"""The word that each token of a text belongs to, whatever the tokenizer.

Tokens and words are compared by the bytes of the text they cover, since a token may be a part of a character. A token
belongs to the word of which it covers most: ` cat` to cat, the space notwithstanding, and a lone space to none.

    word          words, numbers and punctuation marks, as the `word` tokenizer splits them
    whitespace    whatever stands between white space, as in most alignment files
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.data.tokens.characters import ByteStream, CharTokenizer
from regard.data.tokens.foreign import ForeignTokenizer
from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.data.tokens.words import WhitespaceTokenizer, WordTokenizer

Span = tuple[int, int]                     # bytes from, to
Split = Callable[[str], list[str]]

WORDS: dict[str, Split] = {"word": WordTokenizer([]).split, "whitespace": str.split}
NONE = -1                                  # the word of a token that belongs to none


def words_of(text: str, words: str = "word") -> list[str]:
    return WORDS[words](text)


def piece_words(tokenizer: Tokenizer, text: str, ids: Sequence[int], words: str = "word") -> list[int]:
    """For each of the ids that `text` was encoded to: the number of its word, or -1."""
    return _words_of_spans(piece_spans(tokenizer, text, ids), spans_of(text, words_of(text, words)))


def written_words(pieces: Sequence[str], words: str = "word") -> list[int]:
    """The word of each token, from what each added to the text. One that added nothing, being only the beginning of a
    character, belongs where the next one does."""
    spans, end = [], 0
    for piece in pieces:
        spans.append((end, end + len(piece.encode())))
        end = spans[-1][1]
    for at in range(len(spans) - 2, -1, -1):
        if spans[at][0] == spans[at][1]:
            spans[at] = spans[at + 1]
    text = "".join(pieces)
    return _words_of_spans(spans, spans_of(text, words_of(text, words)))


def _words_of_spans(pieces: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """For each piece the word of which it covers most; both in the order of the text."""
    best_words, first = [], 0
    for start, end in pieces:
        while first < len(words) and words[first][1] <= start:
            first += 1
        best, most, word = NONE, 0, first
        while word < len(words) and words[word][0] < end:
            covered = min(end, words[word][1]) - max(start, words[word][0])
            if covered > most:
                best, most = word, covered
            word += 1
        best_words.append(best)
    return best_words


def piece_spans(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[Span]:
    """The bytes of the text that each token stands for."""
    if isinstance(tokenizer, WhitespaceTokenizer):
        return spans_of(text, tokenizer.split(text))
    if isinstance(tokenizer, ForeignTokenizer):
        return tokenizer.spans(text)
    if isinstance(tokenizer, CharTokenizer):                 # where an unknown one is <unk>
        sizes = [len(character.encode()) for character in text]
    else:
        stream = tokenizer.stream()
        assert isinstance(stream, ByteStream)
        sizes = [len(stream.pieces[id - FIRST]) if id >= FIRST else 0 for id in ids]
    spans, end = [], 0
    for size in sizes:
        spans.append((end, end + size))
        end += size
    assert len(spans) == len(ids) and end == len(text.encode()), "these ids are not those of the text"
    return spans


def spans_of(text: str, parts: Sequence[str]) -> list[Span]:
    """The spans of parts of a text that follow one another with nothing but white space between them."""
    spans, begun, bytes_before = [], 0, 0
    for part in parts:
        begin = text.index(part, begun)
        bytes_before += len(text[begun:begin].encode())
        size = len(part.encode())
        spans.append((bytes_before, bytes_before + size))
        begun, bytes_before = begin + len(part), bytes_before + size
    return spans
