"""Splits a line into words, numbers and punctuation marks: for the alignments of corpora and the `word` tokenizer."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import cache

# Numbers, then words with inner apostrophes, then one mark at a time. \p{P} and \p{S} are punctuation and symbols.
WORDS = r"[0-9]+(?:[.,][0-9]+)*|(?:[^\s\p{P}\p{S}]|_)+(?:['’](?:[^\s\p{P}\p{S}]|_)+)*|[^\s]"

MARKS_END = 0x20000        # beyond lie ideographs, but no space, mark or symbol: to look there takes half a second


def split_words(text: str) -> list[str]:
    """The words, numbers and punctuation marks of a text, in order; spaces are lost."""
    return _word_pattern().findall(text)


@cache
def _word_pattern() -> re.Pattern[str]:
    """WORDS for Python's `re`, which lacks \\p: the classes are spelled out from the Unicode tables."""
    letter = f"[^{_between_words()}]"             # one class, not a choice of two: `re` is far quicker so
    plain = r"[A-Za-z]+(?=[ \n,.;:!?])|"         # the usual case, tried first for speed; it changes nothing
    return re.compile(plain + WORDS.replace(r"(?:[^\s\p{P}\p{S}]|_)", letter))


def _between_words() -> str:
    """Spaces, punctuation and symbols but the underscore, as ranges for inside [...]."""
    return character_ranges(lambda character: character != "_" and (
        unicodedata.category(character)[0] in "PS" or character.isspace()), end=MARKS_END)


def character_ranges(belongs: Callable[[str], bool], end: int = sys.maxunicode + 1) -> str:
    """The characters below `end` that belong, as ranges for inside [...]."""
    spans: list[list[int]] = []
    for code in filter(lambda code: belongs(chr(code)), range(end)):
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in spans)
