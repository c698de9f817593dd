"""ROUGE of one text and its reference (Lin 2004), as Google's `rouge-score` counts it: tests hold the two equal.

What both have: words (ROUGE-1), pairs of neighbours (ROUGE-2), the longest common subsequence (ROUGE-L). Its share of
the summary is the precision, of the reference the recall, and F their harmonic mean. ROUGE-Lsum, of texts in lines,
matches each line of the reference with all lines of the summary; of texts of one line it is ROUGE-L.

Words are runs of letters and digits, lowercased. `rouge-score` knows a-z and 0-9 alone and drops what is written in any
other script: `ascii` does the same, for figures to be compared with others. `any` gives the same words for plain
English; elsewhere it keeps every letter with its accents, and takes single characters where words are not spaced
(Chinese, Japanese, Thai and their neighbours). Stemming is Porter's, of English, by NLTK.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from regard.corpora.word_split import character_ranges
from regard.errors import SettingError, did_you_mean

Words = list[str]
Shares = tuple[float, float, float]                        # F, precision, recall, of 1
Cutter = Callable[[str], Words]

WORDS = ("any", "ascii")
ASCII = re.compile("[a-z0-9]+")
# Scripts that put no space between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, Han.
CLOSE = "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff" \
        "\U00020000-\U0003ffff"


def rouge_n(said: Words, wanted: Words, n: int) -> Shares:
    """ROUGE of runs of n words; one that comes twice counts twice where it does so in both."""
    mine, theirs = (Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (said, wanted))
    return _f((mine & theirs).total(), mine.total(), theirs.total())


def rouge_l(said: Words, wanted: Words) -> Shares:
    return _f(common(said, wanted), len(said), len(wanted))


def rouge_lsum(summary: Sequence[Words], reference: Sequence[Words]) -> Shares:
    """ROUGE-Lsum: a word of the reference counts if it is in the longest common subsequence of its line with any line
    of the summary, and no more often than it stands in either text."""
    left = Counter(word for line in summary for word in line)
    hits = 0
    for line in reference:
        for at in sorted({at for other in summary for at in matched(line, other)}):
            if left[line[at]] > 0:
                left[line[at]] -= 1
                hits += 1
    return _f(hits, sum(map(len, summary)), sum(map(len, reference)))


def _f(hits: int, said: int, wanted: int) -> Shares:
    if not hits:
        return 0.0, 0.0, 0.0
    precision, recall = hits / said, hits / wanted
    return 2 * precision * recall / (precision + recall), precision, recall


# ---------------------------------------------------------------------- the longest common subsequence


def table(one: Words, other: Words) -> list[list[int]]:
    """The definition: table[i][j] is the length for the first i words of one and the first j of the other."""
    rows = [[0] * (len(other) + 1)]
    for word in one:
        row = [0]
        for j, each in enumerate(other):
            row.append(rows[-1][j] + 1 if word == each else max(rows[-1][j + 1], row[j]))
        rows.append(row)
    return rows


def columns(one: Words, other: Words) -> list[int]:
    """The table a column at a time, each as the bits of one number (Hyyrö 2004): bit i of column j is 0 where
    table[i + 1][j] is table[i][j] + 1. A word of `other` costs one addition, whatever the length of `one`."""
    places: dict[str, int] = {}
    for i, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << i
    every = (1 << len(one)) - 1
    found = [every]
    for word in other:
        column = found[-1]
        met = column & places.get(word, 0)
        found.append(((column + met) | (column - met)) & every)
    return found


def common(one: Words, other: Words) -> int:
    """The length of the longest common subsequence."""
    return len(one) - columns(one, other)[-1].bit_count()


def matched(one: Words, other: Words) -> list[int]:
    """The places in `one` of a longest common subsequence, the one that `rouge-score` would choose."""
    table_columns = columns(one, other)
    places = []
    i, j = len(one), len(other)
    while i and j:
        if one[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            places.append(i)
        elif _cell(table_columns[j - 1], i) > _cell(table_columns[j], i - 1):
            j -= 1
        else:
            i -= 1
    return places[::-1]


def _cell(column: int, i: int) -> int:
    """table[i][j] from column j."""
    return i - (column & (1 << i) - 1).bit_count()


# -------------------------------------------------------------------------------------------------- words


def cutter(words: str = "any", stem: bool = False) -> Cutter:
    """Return the function that cuts a text into the words that are compared."""
    if words not in WORDS:
        raise SettingError(f"unknown words {words}{did_you_mean(words, WORDS)}")
    split = any_words if words == "any" else ascii_words
    if not stem:
        return split
    try:
        from nltk.stem.porter import PorterStemmer
    except ModuleNotFoundError:
        raise SettingError("stem = True needs nltk, which is missing: pip install nltk") from None
    stemmed = PorterStemmer().stem
    # Short words are left as they are, as in `rouge-score`.
    return lambda text: [stemmed(word) if len(word) > 3 else word for word in split(text)]


def ascii_words(text: str) -> Words:
    return ASCII.findall(text.lower())


def any_words(text: str) -> Words:
    if text.isascii():
        return ascii_words(text)
    return _any_script().findall(unicodedata.normalize("NFC", text).lower())


@cache
def _any_script() -> re.Pattern[str]:
    """One character of a script without spaces, or a run of letters, digits and the marks upon them."""
    marks = character_ranges(lambda character: unicodedata.category(character)[0] == "M")     # \w leaves them out
    return re.compile(f"(?:(?=[{CLOSE}])[^\\W_])[{marks}]*|(?:(?![{CLOSE}])[^\\W_][{marks}]*)+")
