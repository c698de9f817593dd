"""Segments: a large text cut into parts that are read each by itself, and give together what the whole gives.

A plain file is cut where a block of the serial reader begins behind a newline, so that a part holds the very blocks
that the whole has. JSONL is cut at lines. What is packed, Parquet or at an address stays whole. Small files share a
segment.
Paragraphs may go on behind a cut: a part begins behind its first empty line, and ends at the first one behind its end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from regard.data.reading.lines import BLOCK, UTF8_BOM, find_cut
from regard.data.reading.readers import (
    ReadSettings,
    TextFile,
    TextPiece,
    clean_chunks,
    join_paragraphs,
    lines_of,
    open_source,
    read_file,
)
from regard.data.reading.records import LONGEST_RECORD
from regard.data.reading.remote import HERE_ALONE
from regard.data.reading.tally import Tally

SEGMENT = 2**24               # bytes in a segment; one line, packed file or Parquet file may be more
UNPACKED = 3                  # bytes of text in a byte of gzip or Parquet, about
TAIL = 2**12                  # bytes at the end of a block in which a newline is looked for first
FORMATS = ("text", "jsonl", "parquet")


@dataclass(frozen=True)
class Segment:
    """Some files and parts of files, that follow each other; `size` is their bytes."""

    files: tuple[TextFile, ...]
    size: int

    def to_json(self) -> list[dict[str, Any]]:
        return [{name: value for name, value in asdict(replace(file, spool=None)).items() if name != "spool"}
                | {"path": str(file.path)} for file in self.files]


def files_from_json(values: Sequence[dict[str, Any]]) -> tuple[TextFile, ...]:
    return tuple(TextFile(**{**value, "path": Path(value["path"])}) for value in values)


def can_be_cut(sources: Sequence[TextFile]) -> bool:
    """True if other processes can read these files by their names."""
    return all(source.format in FORMATS and (source.path.is_file() or (
        bool(source.address) and not source.address.startswith(HERE_ALONE))) for source in sources)


def size_of(source: TextFile) -> int:
    """The bytes of text in a file, about."""
    size = source.size if source.address else source.path.stat().st_size
    return size * (UNPACKED if source.packed or source.format == "parquet" else 1)


def find_segments(sources: Sequence[TextFile], size: int = SEGMENT) -> list[Segment]:
    """The files in segments of about `size` bytes; the same for the same files."""
    segments: list[Segment] = []
    held: list[TextFile] = []
    total = 0
    for source in sources:
        for part, bytes in _parts(source, size):
            held.append(part)
            total += bytes
            if total >= size:
                segments.append(Segment(tuple(held), total))
                held, total = [], 0
    return [*segments, Segment(tuple(held), total)] if held else segments


def _parts(source: TextFile, size: int) -> Iterator[tuple[TextFile, int]]:
    whole, start = size_of(source), 0
    if not source.packed and not source.address and whole >= 2 * size:
        for cut in {"text": _block_cuts, "jsonl": _line_cuts}.get(source.format, _no_cuts)(source, size):
            yield replace(source, start=start, stop=cut), cut - start
            start = cut
    yield replace(source, start=start), whole - start


def _no_cuts(source: TextFile, size: int) -> Iterator[int]:
    return iter(())


def _block_cuts(source: TextFile, size: int) -> Iterator[int]:
    """Offsets behind a newline at which a block begins, each at least `size` bytes behind the one before."""
    with open_source(source) as stream:
        start = len(UTF8_BOM) if stream.read(len(UTF8_BOM)) == UTF8_BOM else 0
        end, before, tail = os.fstat(stream.fileno()).st_size, 0, min(TAIL, BLOCK)
        while start + BLOCK <= end:
            stream.seek(start + BLOCK - tail)
            newline = stream.read(tail).rfind(b"\n")
            after_newline = newline >= 0
            if after_newline:
                start += BLOCK - tail + newline + 1
            else:
                stream.seek(start)
                block = stream.read(BLOCK)
                after_newline = b"\n" in block
                start += find_cut(block)
            if after_newline and start - before >= size and start < end:
                yield start
                before = start


def _line_cuts(source: TextFile, size: int) -> Iterator[int]:
    with open_source(source) as stream:
        end, before = os.fstat(stream.fileno()).st_size, 0
        while before + size < end:
            stream.seek(before + size)
            stream.readline(LONGEST_RECORD + 1)              # a longer one is refused when it is read
            before = stream.tell()
            if before < end:
                yield before


# ------------------------------------------------------------------------------------------------ reading


def read_segment(files: Sequence[TextFile], settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    """Every document of a segment, in pieces: with those of the other segments, what `read` gives of the whole."""
    for file in files:
        if file.format == "text" and settings.documents == "blank-line" and (file.start or file.stop is not None):
            yield from _read_paragraphs(file, settings, tally)
        else:
            yield from read_file(file, settings, tally)


def _read_paragraphs(part: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    """Paragraphs from behind the first empty line on, up to the first empty line behind the part's end."""
    counts = Tally()                                         # of lines; what is mended belongs to the part's bytes
    own = lines_of(clean_chunks(part, settings, tally), counts)
    if part.start:
        if not any(line is None for line in own):
            return                                           # the part lies inside a paragraph
        counts.read = counts.kept = 0
        counts.dropped.clear()
    for piece in join_paragraphs(chain(own, _up_to_empty(part, settings, counts))):
        tally.documents += piece.ends
        yield piece
    tally.add(counts)


def _up_to_empty(part: TextFile, settings: ReadSettings, counts: Tally) -> Iterator[TextPiece | None]:
    """The lines behind a part, up to the first empty one."""
    if part.stop is None:
        return
    behind = replace(part, start=part.stop, stop=None, line=line_at(part, part.stop) if part.line > 1 else 1)
    for line in lines_of(clean_chunks(behind, settings, Tally()), counts):
        if line is None:
            return
        yield line


def line_at(source: TextFile, offset: int) -> int:
    """The number of the line that begins at this byte."""
    with open_source(replace(source, start=0, stop=offset)) as stream:
        return 1 + sum(block.count(b"\n") for block in iter(lambda: stream.read(BLOCK), b""))


def with_line_numbers(files: Sequence[TextFile]) -> tuple[TextFile, ...]:
    """Return the files, each part with the number of its first line: counted only where a message needs it."""
    return tuple(replace(file, line=line_at(file, file.start)) if file.start else file for file in files)
