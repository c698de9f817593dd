"""The split: which part of a text is learned from and which is held out.

A text of few documents is cut at a character: the last tenth of the characters is held out. A text of many
documents, or of lines, is cut between documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regard.errors import DataError, SettingError
from regard.text.readers import Piece

FEW_DOCUMENTS = 10


@dataclass(frozen=True)
class Part:
    """A stretch of a text, counted in characters or documents; `stop` None: to the end."""

    unit: str = "characters"
    start: int = 0
    stop: int | None = None


WHOLE = Part()


def split(characters: int, documents: int, by: str, share: float) -> tuple[Part, Part]:
    """The part to train on and the part held out, its last `share`."""
    if not 0 < share < 1:
        raise SettingError(f"data.valid_share {share} is impossible: it must lie between 0 and 1, e.g. 0.1")
    unit = "characters" if by == "file" and documents < FEW_DOCUMENTS else "documents"
    total = characters if unit == "characters" else documents
    if total < 2:
        raise DataError(f"too little text to hold some out: {characters:,} characters in {documents:,} "
                        f"document{'s' * (documents != 1)}; give more, or a text of its own with --valid FILE")
    cut = min(max(int((1 - share) * total), 1), total - 1)
    return Part(unit, 0, cut), Part(unit, cut, None)


def take(pieces: Iterable[Piece], part: Part) -> Iterator[Piece]:
    """Only the pieces of this part. A document cut at the part's end does not end there."""
    if part == WHOLE:
        yield from pieces
    elif part.unit == "documents":
        yield from _take_documents(pieces, part)
    else:
        yield from _take_characters(pieces, part)


def _take_documents(pieces: Iterable[Piece], part: Part) -> Iterator[Piece]:
    document = 0
    for piece in pieces:
        if part.stop is not None and document >= part.stop:
            return
        if document >= part.start:
            yield piece
        document += piece.ends


def _take_characters(pieces: Iterable[Piece], part: Part) -> Iterator[Piece]:
    position = 0
    for text, ends in pieces:
        if part.stop is not None and position >= part.stop:
            return
        first = max(part.start - position, 0)
        last = len(text) if part.stop is None else min(part.stop - position, len(text))
        if first < last:
            yield Piece(text[first:last], ends and last == len(text))
        position += len(text)
