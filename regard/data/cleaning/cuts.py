"""Cuts in large files of pairs and of labelled texts: the parts, read one by one, give the pairs of the whole file.

Two aligned files are cut at the same lines; TSV, JSONL and lines of word/TAG at any line; columns of words behind an
empty line, where no sentence goes on. What is packed, at an address, or in another format stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from regard.data.pairs.pair_readers import CHANGED
from regard.data.reading.lines import BLOCK
from regard.data.reading.readers import TextFile, open_source
from regard.data.reading.remote import HERE_ALONE
from regard.data.reading.segments import SEGMENT, Segment, size_of
from regard.data.reading.two_fields import LONGEST
from regard.errors import DataError

NEWLINE = 10
CutEnd = Callable[[bytes], bool]              # whether a file may be cut behind this line


def can_be_shared(sources: Sequence[TextFile]) -> bool:
    """True if other processes can read these files by their names."""
    return all(not source.address.startswith(HERE_ALONE) if source.address else source.path.is_file()
               for source in sources)


def cut_pairs(sources: Sequence[TextFile], size: int = SEGMENT) -> list[Segment]:
    """Return the files in segments of about `size` bytes; two plain ones are aligned, and each segment has of both."""
    if sources[0].format == "text":
        return cut_aligned(sources[0], sources[1], size)
    return cut_files(sources, {"tsv": any_line, "jsonl": any_line}, size)


def cut_labelled(sources: Sequence[TextFile], size: int = SEGMENT) -> list[Segment]:
    return cut_files(sources, {"tsv": any_line, "jsonl": any_line, "slashed": any_line, "conll": is_empty,
                               "conllu": is_empty}, size)


# ------------------------------------------------------------------------------------------------ file by file


def cut_files(sources: Sequence[TextFile], ends: dict[str, CutEnd], size: int) -> list[Segment]:
    """Return the files one behind the other; small ones share a segment."""
    segments: list[Segment] = []
    held: list[TextFile] = []
    total = 0
    for source in sources:
        for part, bytes in parts_of(source, ends, size):
            held.append(part)
            total += bytes
            if total >= size:
                segments.append(Segment(tuple(held), total))
                held, total = [], 0
    return [*segments, Segment(tuple(held), total)] if held else segments


def parts_of(source: TextFile, ends: dict[str, CutEnd], size: int) -> Iterator[tuple[TextFile, int]]:
    whole, start = size_of(source), 0
    if source.format in ends and is_plain(source) and whole >= 2 * size:
        for cut in line_cuts(source, ends[source.format], size):
            yield replace(source, start=start, stop=cut), cut - start
            start = cut
    yield replace(source, start=start), whole - start


def is_plain(source: TextFile) -> bool:
    return not source.packed and not source.address


def any_line(line: bytes) -> bool:
    return True


def is_empty(line: bytes) -> bool:
    return len(line) < LONGEST and not line.strip()


def line_cuts(source: TextFile, may_end: CutEnd, size: int) -> Iterator[int]:
    """Yield offsets behind lines that may end a part, each at least `size` bytes behind the one before."""
    with open_source(source) as stream:
        end, before = source.path.stat().st_size, 0
        while before + size < end:
            stream.seek(before + size)
            finish_line(stream)                              # where this lands is inside of it
            if may_end is not any_line:
                while (line := stream.readline(LONGEST)) and not may_end(line):
                    if not line.endswith(b"\n"):
                        finish_line(stream)
            before = stream.tell()
            if before < end:
                yield before


def finish_line(stream: BinaryIO) -> None:
    while (some := stream.readline(LONGEST)) and not some.endswith(b"\n"):
        pass


# ------------------------------------------------------------------------------------------------ side by side


def cut_aligned(first: TextFile, second: TextFile, size: int) -> list[Segment]:
    """Return two files of as many lines in segments of the same lines of both."""
    whole = size_of(first) + size_of(second)
    if not (is_plain(first) and is_plain(second)) or whole < 2 * size:
        return [Segment((first, second), whole)]
    ends = ends_by_size(first, size * size_of(first) / whole)
    other_ends = ends_by_line(second, [line for line, _ in ends])
    if len(other_ends) < len(ends):
        raise DataError(f"{second.name} {CHANGED}")
    segments, start, other_start = [], 0, 0
    for (_, stop), other_stop in zip(ends, other_ends, strict=True):
        parts = replace(first, start=start, stop=stop), replace(second, start=other_start, stop=other_stop)
        segments.append(Segment(parts, stop - start + other_stop - other_start))
        start, other_start = stop, other_stop
    rest = replace(first, start=start), replace(second, start=other_start)
    return [*segments, Segment(rest, whole - start - other_start)]


def ends_by_size(source: TextFile, size: float) -> list[tuple[int, int]]:
    """Return how many lines end before each cut, and its offset: behind a newline, and before the last line's end."""
    found, lines, before = [], 0, 0
    end = source.path.stat().st_size
    for start, newlines in newlines_of(source):
        while (place := int(np.searchsorted(newlines, before + size - 1 - start))) < len(newlines):
            offset = start + int(newlines[place]) + 1
            if offset < end:
                found.append((lines + place + 1, offset))
            before = offset
        lines += len(newlines)
    return found


def ends_by_line(source: TextFile, lines: Sequence[int]) -> list[int]:
    """Return the offset behind each of these lines, which are counted from 1 and ascend."""
    found: list[int] = []
    seen = 0
    for start, newlines in newlines_of(source):
        while len(found) < len(lines) and lines[len(found)] <= seen + len(newlines):
            found.append(start + int(newlines[lines[len(found)] - seen - 1]) + 1)
        seen += len(newlines)
    return found


def newlines_of(source: TextFile) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the offset of each block of a file, and where in it newlines stand."""
    with open_source(source) as stream:
        start = 0
        while block := stream.read(BLOCK):
            yield start, np.flatnonzero(np.frombuffer(block, np.uint8) == NEWLINE)
            start += len(block)
