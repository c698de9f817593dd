"""Checks that two files are aligned line by line, and finds the place where they part.

Translations have lengths that go together. So each line of the shorter file is compared in length with the line beside
it in the longer one, and with the line that would stand beside it had all the missing lines gone missing before. Where
the first comparison stops being the better one, and stops being better than usual, the files have parted: one sum over
the lines, whose least value marks the place. When lines are missing in several places, it is the first of them. Of
captions in French and English, of which one or two had been taken out, it named a place within three lines nine times
in ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from regard.data.reading.lines import BLOCK, UTF8_BOM
from regard.data.reading.readers import TextFile, open_source
from regard.data.reading.two_fields import LONGEST, raw_lines
from regard.errors import DataError

AROUND = 5                 # lines before and after the place in which a one-sided empty line is looked for
SMALL = 5                  # added to lengths, so that short lines do not cry wolf
MOST = 2.0                 # how much one line can say
USUAL = 0.75               # of the average distance: less is that of lines that go together
CURE = "line k of one file must translate line k of the other; nothing was read"


class Size(NamedTuple):
    lines: int
    bytes: int


def check_same_length(first: TextFile, second: TextFile) -> int:
    """The number of lines of both; an error that says where to look when it is not the same."""
    one, other = size_of(first), size_of(second)
    if one.lines == other.lines:
        return one.lines
    counts = f"{first.name} has {_lines(one)} and {second.name} has {_lines(other)}"
    longer, shorter = (first, second) if one.lines > other.lines else (second, first)
    more, less = max(one, other), min(one, other)
    if not less.lines:
        raise DataError(f"{counts}: {shorter.name} is empty; {CURE}")
    at = parting(longer, shorter, more, less)
    if at == less.lines:
        what = "empty lines" if _rest_is_empty(longer, at) else "lines without a translation"
        raise DataError(f"{counts}: they seem aligned until {shorter.name} ends, and {longer.name} goes on from "
                        f"line {at + 1} with {what}; {CURE}")
    raise DataError(f"{counts}: they seem to part near {_shown(first, second, at)}; {CURE}")


def size_of(source: TextFile) -> Size:
    lines = total = 0
    last = b"\n"
    with open_source(source) as stream:
        while block := stream.read(BLOCK):
            block = block.removeprefix(UTF8_BOM) if not total else block
            lines += block.count(b"\n")
            total += len(block)
            last = block[-1:] or last
    return Size(lines + (last != b"\n"), total)


def parting(longer: TextFile, shorter: TextFile, more: Size, less: Size) -> int:
    """The number of lines that go together before the files part; all of the shorter file if they never do."""

    def ratio(one: float, other: float) -> float:
        return math.log((one + SMALL) / (other + SMALL))

    def apart(one: int, other: int) -> float:
        return min(abs(ratio(one, other) - mean), MOST)

    mean = ratio(more.bytes / more.lines, less.bytes / less.lines)           # one language may always take more bytes

    limit = USUAL * sum(map(apart, _lengths(longer), _lengths(shorter))) / less.lines
    shifted = islice(_lengths(longer), more.lines - less.lines, None)
    total = least = 0.0
    place = 0
    sides = zip(_lengths(longer), _lengths(shorter), shifted, strict=False)
    for number, (one, other, later) in enumerate(sides, 1):
        here = apart(one, other)
        total += (here - apart(later, other)) + (here - limit)
        if total <= least:                                   # of equals the last: a file is most often cut at its end
            least, place = total, number
    return place


def _lengths(source: TextFile) -> Iterator[int]:
    return (LONGEST if raw is None else len(raw) for raw in raw_lines(source))


def _rest_is_empty(source: TextFile, start: int) -> bool:
    return all(raw is not None and not raw.strip() for raw in islice(raw_lines(source), start, None))


def _shown(first: TextFile, second: TextFile, at: int) -> str:
    """The line to look at, with the beginning of both its sides: one that is empty on one side if there is one near."""
    start = max(at - AROUND, 0)
    near = list(islice(zip(raw_lines(first), raw_lines(second), strict=False), start, at + AROUND + 1))
    chosen = at - start
    for index, (one, other) in enumerate(near):
        if _empty(one) != _empty(other):
            chosen = index
            break
    one, other = near[chosen]
    return f"line {start + chosen + 1} ({_beginning(one)} beside {_beginning(other)})"


def _empty(raw: bytes | None) -> bool:
    return raw is not None and not raw.strip()


def _beginning(raw: bytes | None) -> str:
    text = (raw or b"a giant line")[:160].decode(errors="replace").strip()
    return repr(text[:40] + "..." if len(text) > 40 else text)


def _lines(size: Size) -> str:
    return f"{size.lines:,} line{'s' * (size.lines != 1)}"
