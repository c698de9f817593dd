"""Labels: pieces of text that can be drawn anywhere, whatever they hold, and how wide they are in a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from rich.cells import cell_len

EMPTY, SPACE, MORE = "∅", "␣", "…"
JOINERS = "\u200c\u200d"                       # invisible, but words and emoji are spelled with them
SKIN = "\U0001f3fb\U0001f3ff"                  # the first and last of the signs that colour the emoji before them
UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")        # controls, formats (which can turn a line around), halves of characters
LEFT_TO_RIGHT, ISOLATE, END_ISOLATE = "\u200e", "\u2068", "\u2069"


def visible(piece: str) -> str:
    """The piece with nothing hidden: controls escaped, spaces at its ends shown, a sign for nothing at all."""
    text = "".join(char if _drawable(char) else char.encode("unicode_escape").decode("ascii") for char in piece)
    kept = text.strip()
    before, after = len(text) - len(text.lstrip()), len(text) - len(text.rstrip())
    return f"{SPACE * before}{kept}{SPACE * after if kept else ''}" or EMPTY


def _drawable(char: str) -> bool:
    if char in JOINERS:
        return True
    point = ord(char)
    none = point & 0xFFFE == 0xFFFE or 0xFDD0 <= point <= 0xFDEF      # not characters, and not allowed in an SVG
    return not none and unicodedata.category(char) not in UNSEEN


def graphemes(text: str) -> Iterator[str]:
    """Yield what a reader takes for one character: a letter with its marks, emoji that are joined."""
    cluster = ""
    for char in text:
        mark = unicodedata.category(char) in ("Mn", "Me", "Mc") or SKIN[0] <= char <= SKIN[1]
        joined = char in JOINERS or cluster.endswith("\u200d") or _half_flag(cluster, char)
        if cluster and not mark and not joined:
            yield cluster
            cluster = ""
        cluster += char
    if cluster:
        yield cluster


def _half_flag(cluster: str, char: str) -> bool:
    """Two letters of their own kind make a flag."""
    return len(cluster) == 1 and all("\U0001f1e6" <= each <= "\U0001f1ff" for each in cluster + char)


def fitted(text: str, width: int) -> str:
    """Cut to so many cells, with a sign that it was."""
    if cell_len(text) <= width:
        return text
    kept = ""
    for cluster in graphemes(text):
        if cell_len(kept + cluster) > width - 1:
            break
        kept += cluster
    return kept + MORE


def padded(text: str, width: int, *, left: bool = False) -> str:
    """Filled with spaces to so many cells; `left` puts them before."""
    room = " " * (width - cell_len(text))
    return room + in_its_own_direction(text) if left else in_its_own_direction(text) + room


def in_its_own_direction(text: str) -> str:
    """Right-to-left text that leaves the rest of its line alone: the line goes left to right, the text is isolated."""
    if any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text):
        return f"{LEFT_TO_RIGHT}{ISOLATE}{text}{END_ISOLATE}"
    return text
