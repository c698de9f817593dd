"""Sentences: a text cut into pieces that a translator can take one by one, and put together again.

    split    a text into its sentences
    fit      sentences that are too long into clauses, then words, then characters
    join     pieces, or their translations, into a text

Nothing is ever lost: each piece keeps the space that stood after it, and the pieces joined are the text, whatever it
was. A stop ends a sentence unless something speaks against it: an abbreviation, a number, no space, a small letter
after it. In doubt two sentences stay together, which costs little; half a sentence cannot be translated. Every text
is read in linear time, and `fit` measures each character about log(length / limit) times.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from regard.errors import SettingError

WIDE = "。！？｡．"                                          # stops of scripts that put no space after them
LINE = "\n\r\v\f\x85\u2028\u2029"                          # a line always ends a sentence
STOP = re.compile(f"[.!?…‼⁇⁈⁉؟۔।॥።{WIDE}]+|[{LINE}]")
SPACE = re.compile(r"\s*")
CLAUSE = re.compile(r"(?:[;:,–—][\"'”’»)\]]?|(?<=\s)-)(?=\s)|[；：，、،؛][」』”’）]*")
# What may stand between a stop and the space after it. French puts a space before », and an emoji often has one.
TAIL = re.compile("(?:[\"'”’)\\]}〉》」』】）\u2600-\u27bf\ufe0f\u200d]|[ \u00a0\u202f]?[»›\U0001f000-\U0001faff])*")
TAIL_INWARD = re.compile("[\"'“”‘’)\\]}«»‹›\u2600-\u27bf\ufe0f\u200d\U0001f000-\U0001faff]*")     # »Ja.« „Ja.“
INWARD = {"de", "da", "nb", "nn", "no", "sl", "hr", "cs", "sk", "hu", "pl"}
OPENING = re.compile(r"[\"'“”„‘‚«»‹›(\[{¿¡—–\- \u00a0\u202f]{0,4}")


WORDS = {name: frozenset(text.split()) for name, text in tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")).items()}
TITLES, NEVER_LAST, BEFORE_NUMBERS, MAYBE_LAST, STAYS_BEFORE_SMALL, STARTERS, ELIDED, ORDINAL_STOP, CLOSE = (
    WORDS[name] for name in ("titles", "never_last", "before_numbers", "maybe_last", "stays_before_small", "starters",
                             "elided", "ordinal_stop", "close"))
NUMERAL = re.compile(r"\d{1,3}|[IVX]{1,4}|[A-Za-z]")
NEXT_WORD = re.compile(r"[^\W\d_]{1,12}(?![^\W\d_])")


@dataclass(frozen=True)
class Sentence:
    """A sentence or a part of one, without space around it, and the space that stood after it."""

    text: str
    after: str = ""

    def __str__(self) -> str:
        return self.text + self.after


def split(text: str, lang: str = "") -> list[Sentence]:
    """The sentences of a text; only the first piece may be empty, where the text begins with space. `lang` settles
    what languages do differently: ordinals and the way quotes point."""
    start = _skip_space(text, 0)
    pieces = [Sentence("", text[:start])] if start else []
    small = text.islower()                                  # nothing is capitalised, so a small letter says nothing
    for end, following in _ends(text, _base(lang), small):
        pieces.append(Sentence(text[start:end], text[end:following]))
        start = following
    if start < len(text):
        last = text[start:].rstrip()
        pieces.append(Sentence(last, text[start + len(last):]))
    return pieces


def join(pieces: Sequence[Sentence], texts: Sequence[str] | None = None, target: str = "") -> str:
    """The text again, or with `texts` the translations in the places of the pieces. With `target`, their language,
    sentences that stood close in Chinese get a space in French, and the reverse."""
    if texts is None:
        return "".join(map(str, pieces))
    spaces = [piece.after for piece in pieces]
    if target:
        spaces[:-1] = [_space_between(left, right, _base(target)) for left, right in pairwise(pieces)]
    return "".join(text + space for text, space in zip(texts, spaces, strict=True))


def fit(pieces: Iterable[Sentence], measure: Callable[[str], int], limit: int, lang: str = "") -> list[Sentence]:
    """The pieces, none larger than `limit`: what is too long is cut near the middle, at the end of a clause if there is
    one, else between words, else between characters. Pieces are never put together."""
    if limit < 1:
        raise SettingError(f"the longest sentence allowed is {limit}: it must be at least 1")
    return [part for piece in pieces for part in _fitting(piece, measure, limit, lang)]


# ------------------------------------------------------------------------------------------------- ends


def _ends(text: str, lang: str, small: bool) -> Iterator[tuple[int, int]]:
    """Yield each sentence's end and the beginning of the next. `small`: it may begin with a small letter."""
    start = bare = _skip_space(text, 0)                     # `bare`: up to there the sentence is nothing but stops
    tails = TAIL_INWARD if lang in INWARD else TAIL
    for stop in STOP.finditer(text, start):
        if stop.start() < start:
            continue
        if stop[0] in LINE:
            end = stop.start()
            while text[end - 1].isspace():
                end -= 1
        else:
            end = _match_end(tails, text, stop.end())
        following = _skip_space(text, end)
        if following == len(text):
            return
        if stop[0] not in LINE and stop.start() == bare:
            bare = following                                # ... they belong to what follows
        elif stop[0] in LINE or _is_end(text, start, stop, end, following, lang, small):
            yield end, following
            start = bare = following


def _is_end(text: str, start: int, stop: re.Match[str], end: int, following: int, lang: str, small: bool) -> bool:
    quoted = end > stop.end()
    if stop[0][-1] in WIDE:
        within = stop[0] == "．" and text[following].isdigit()                      # ３．１４
        return not within and not (quoted and text[following] in "とっな")          # 「はい。」と言った
    if end == following:                                    # 3.14, example.com, J.K.
        return False
    first = _match_end(OPENING, text, following)
    is_small = text[first:first + 1].islower()
    if is_small and (quoted or not small):                  # "What?" he said
        return False
    return stop[0] != "." or not _is_abbreviation(text, start, stop.start(), first, lang)


def _is_abbreviation(text: str, start: int, dot: int, first: int, lang: str) -> bool:
    """True if the stop at `dot` belongs to the word before it, and does not end the sentence."""
    before = text[max(start, dot - 20):dot]
    word = re.split(r"[\s'’(\[{\"“«/]", before)[-1]
    lower = word.lower()
    if dot - start == len(word) and NUMERAL.fullmatch(word):                      # 1. The first point
        return True
    if word in TITLES or lower in NEVER_LAST or (word == "Me" and lang == "fr"):
        return True
    if text[first:first + 1].isdigit() and lower in BEFORE_NUMBERS:
        return True
    if lang in ORDINAL_STOP and NUMERAL.fullmatch(word) and len(word) <= (2 if word.isdigit() else 4):
        return True
    parts = re.split(r"[.\-]+", word)                       # U.S, Ph.D, J.-C, and a lone initial
    dotted = "." in word and all(part.isalpha() and len(part) <= 3 for part in parts)
    if dotted or (len(word) == 1 and word.isupper()) or lower in MAYBE_LAST:
        return not _begins_sentence(text, first)
    return lower in STAYS_BEFORE_SMALL and text[first:first + 1].islower()


def _begins_sentence(text: str, at: int) -> bool:
    word = NEXT_WORD.match(text, at)
    if word is None:
        return False
    after = text[word.end():word.end() + 1]
    return (word[0] in STARTERS and after != ".") or (word[0] in ELIDED and after in ("'", "’"))


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None                                # these patterns match nothing, too
    return match.end()


def _skip_space(text: str, at: int) -> int:
    return _match_end(SPACE, text, at)


def _base(lang: str) -> str:
    return lang.lower().replace("_", "-").split("-")[0]


# -------------------------------------------------------------------------------------------------- fit


def _fitting(piece: Sentence, measure: Callable[[str], int], limit: int, lang: str) -> list[Sentence]:
    text = piece.text
    size = measure(text) if text else 0
    if size <= limit:
        return [piece]
    places = _Places(text, _base(lang))
    todo, spans = [(0, len(text), size)], []                # the leftmost stands last
    while todo:
        start, end, size = todo.pop()
        if size <= limit:
            spans.append((start, end))
            continue
        if end - start == 1:
            raise SettingError(f"the longest sentence allowed is {limit}, and {text[start]!r} alone takes {size}")
        parts = -(-size // limit)                           # as few as there can be, of about one size
        left, right = places.nearest(start, end, start + (end - start) * (parts // 2) // parts)
        todo.append((right, end, measure(text[right:end])))
        todo.append((start, left, measure(text[start:left])))
    begins = [start for start, _ in spans[1:]] + [len(text)]
    pieces = [Sentence(text[start:end], text[end:begin]) for (start, end), begin in zip(spans, begins, strict=True)]
    return [*pieces[:-1], Sentence(pieces[-1].text, piece.after)]


class _Places:
    """The places where a sentence may be cut: (end of the left part, beginning of the right one), best kinds first."""

    def __init__(self, text: str, lang: str):
        self.text, self.lang = text, lang

    @cached_property
    def stops(self) -> list[tuple[int, int]]:
        return list(_ends(self.text, self.lang, small=True))

    @cached_property
    def clauses(self) -> list[tuple[int, int]]:
        return [(mark.end(), _skip_space(self.text, mark.end())) for mark in CLAUSE.finditer(self.text)]

    @cached_property
    def spaces(self) -> list[tuple[int, int]]:
        return [space.span() for space in re.finditer(r"\s+", self.text)]

    @cached_property
    def flags(self) -> list[int]:
        """The beginnings of runs of the letters of which two make a flag."""
        return [run.start() for run in re.finditer("[\U0001f1e6-\U0001f1ff]+", self.text)]

    def nearest(self, start: int, end: int, wanted: int) -> tuple[int, int]:
        """The cut of the best kind there is within start:end, nearest to where it is wanted."""
        for kind in ("stops", "clauses", "spaces"):
            places = getattr(self, kind)
            at = bisect_left(places, (wanted, 0))
            near = [place for place in places[max(0, at - 1):at + 1] if start < place[0] and place[1] < end]
            if near:
                return min(near, key=lambda place: abs(place[0] - wanted))
        return self.between_characters(start, end, wanted)

    def between_characters(self, start: int, end: int, wanted: int) -> tuple[int, int]:
        wanted = min(max(wanted, start + 1), end - 1)
        for away in range(33):                              # a cluster longer than that is no writing
            for at in (wanted - away, wanted + away):
                if start < at < end and not self.inside_cluster(at):
                    return at, at
        return wanted, wanted

    def inside_cluster(self, index: int) -> bool:
        """True inside what a reader takes for one character: accents, joined or tinted emoji, flags, jamo."""
        before, here = self.text[index - 1], self.text[index]
        if unicodedata.category(here)[0] == "M" or here in "\u200c\u200d" or before == "\u200d":
            return True
        if _among(here, "\U0001f3fb\U0001f3ff", "\U000e0020\U000e007f", "\u1160\u11ff"):
            return True
        flag = "\U0001f1e6\U0001f1ff"
        between = _among(before, flag) and _among(here, flag)
        return between and (index - self.flags[bisect_right(self.flags, index) - 1]) % 2 == 1


# ------------------------------------------------------------------------------------------------- join


def _space_between(left: Sentence, right: Sentence, target: str) -> str:
    if target in CLOSE:
        return left.after if not left.text or any(char in LINE for char in left.after) else ""
    return left.after or (" " if _stands_close(left.text[-1:]) or _stands_close(right.text[:1]) else "")


def _stands_close(char: str) -> bool:
    """True if a character is Chinese or Japanese, where the end of a sentence needs no space."""
    return _among(char, "\u3000\u9fff", "\uf900\ufaff", "\uff00\uffef", "\U00020000\U0003ffff")


def _among(char: str, *ranges: str) -> bool:
    return any(pair[0] <= char <= pair[1] for pair in ranges)
