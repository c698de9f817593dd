"""The split: which part of a text is learned from and which is held out.

A text of few documents is cut at a character: the last tenth of the characters is held out. A text of many
documents, or of lines, is cut between documents.

What is held out may be halved: one half chooses (the best weights, an n-gram's order), the other is measured. Then no
number is chosen on the text that it is reported on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

from regard.data.reading.readers import TextPiece
from regard.data.reading.tally import Tally
from regard.errors import DataError, SettingError


class Tallied(Protocol):
    """Anything that was read, with the account of it."""

    @property
    def tally(self) -> Tally: ...


Read = TypeVar("Read", bound=Tallied)

FEW_DOCUMENTS = 10
HALVED = 20                # held-out documents or pairs, at least, for two halves; of whole files
HALVED_FILES = 4
HALVED_CHARACTERS = 4096   # and of a single text


@dataclass(frozen=True)
class TextSpan:
    """A stretch of a text, counted in characters or documents; `stop` None: to the end. Of "even documents" every other
    one is taken, from the first on; of "odd documents" the others."""

    unit: str = "characters"
    start: int = 0
    stop: int | None = None


WHOLE = TextSpan()


def split(characters: int, documents: int, by: str, share: float) -> tuple[TextSpan, TextSpan]:
    """The part to train on and the part held out, its last `share`."""
    if not 0 < share < 1:
        raise SettingError(f"data.valid_share {share} is impossible: it must lie between 0 and 1, e.g. 0.1")
    unit = "characters" if by == "file" and documents < FEW_DOCUMENTS else "documents"
    total = characters if unit == "characters" else documents
    if total < 2:
        amount = f"{characters:,} characters in " * bool(characters)         # of pairs and labelled texts, none counts
        raise DataError(f"too little text to hold some out: {amount}{documents:,} document{'s' * (documents != 1)}; "
                        "give more, or a text of its own with --valid FILE")
    cut = min(max(int((1 - share) * total), 1), total - 1)
    return TextSpan(unit, 0, cut), TextSpan(unit, cut, None)


def first_share(part: TextSpan, characters: int, documents: int, by: str, share: float) -> TextSpan:
    """The first `share` of a part that is learned from; `characters` and `documents` are those of the whole text."""
    if not 0 < share <= 1:
        raise SettingError(f"data.train_share {share} is impossible: it must lie above 0 and be at most 1, e.g. 0.5")
    if share == 1:
        return part
    if part == WHOLE:
        single = by == "file" and documents < FEW_DOCUMENTS
        part = TextSpan("characters", 0, characters) if single else TextSpan("documents", 0, documents)
    assert part.stop is not None
    return TextSpan(part.unit, part.start, part.start + max(1, int(share * (part.stop - part.start))))


def halve(held: TextSpan, characters: int, documents: int, by: str) -> tuple[TextSpan, TextSpan] | None:
    """The half of what is held out that chooses, and the half that is measured; None where it is too small to divide.

    Documents take turns, so that both halves are alike. A single text is cut in its middle. `characters` and
    `documents` are those of the whole text, of which `held` is a part.
    """
    single = held.unit == "characters" and (held.start > 0 or (by == "file" and documents < HALVED_FILES))
    if single:
        middle = (held.start + characters) // 2
        enough = characters - held.start >= HALVED_CHARACTERS
        return (TextSpan("characters", held.start, middle), TextSpan("characters", middle, None)) if enough else None
    if documents - held.start < (HALVED_FILES if by == "file" else HALVED):
        return None
    return TextSpan("even documents", held.start, None), TextSpan("odd documents", held.start, None)


@dataclass
class CorpusParts(Generic[Read]):
    """The texts to learn from and to hold out, and where there is one a part that training never reads."""

    train: Read
    valid: Read
    train_part: TextSpan
    valid_part: TextSpan
    tally: Tally
    test: Callable[[], tuple[Read, TextSpan]] | None = None
    measured_on: str = ""                         # what that is: "test", or "half" of what was held out


def split_parts(
    data: Any, built_in: bool, by: str, read: Callable[[Any, str], Read], measure: Callable[[Read], tuple[int, int]]
) -> CorpusParts[Read]:
    """The parts of what `read(settings, part)` reads: files of their own, parts of an embedded corpus, or what is held
    out of the same files. `measure` gives the characters and the documents of what was read.

    The test part is read when it is asked for, and files of the user's own once.
    """
    train = read(data, "train")
    parts = CorpusParts(train, train, WHOLE, WHOLE, Tally.from_dict(train.tally.to_dict()))
    if data.valid or built_in:
        parts.valid = read(data, "valid")
        parts.tally.add(parts.valid.tally)
    else:
        parts.train_part, parts.valid_part = split(*measure(train), by, data.valid_share)
    if data.test or (built_in and not data.valid):
        of_files = replace(data, files=data.test or data.files, valid=())

        def find() -> tuple[Read, TextSpan]:
            return read(of_files, "test"), WHOLE

        parts.test, parts.measured_on = cache(find) if data.test else find, "test"
    elif data.halve and (halves := halve(parts.valid_part, *measure(parts.valid), by)):
        parts.valid_part, other = halves
        parts.test, parts.measured_on = lambda: (parts.valid, other), "half"
    return parts


def take(pieces: Iterable[TextPiece], part: TextSpan) -> Iterator[TextPiece]:
    """Only the pieces of this part. A document cut at the part's end does not end there."""
    if part == WHOLE:
        yield from pieces
    elif part.unit.endswith("documents"):
        yield from _take_documents(pieces, part)
    else:
        yield from _take_characters(pieces, part)


def _take_documents(pieces: Iterable[TextPiece], part: TextSpan) -> Iterator[TextPiece]:
    document = 0
    for piece in pieces:
        if part.stop is not None and document >= part.stop:
            return
        if document >= part.start and _has_turn(part.unit, document - part.start):
            yield piece
        document += piece.ends


def _has_turn(unit: str, place: int) -> bool:
    return {"documents": True, "even documents": place % 2 == 0, "odd documents": place % 2 == 1}[unit]


def _take_characters(pieces: Iterable[TextPiece], part: TextSpan) -> Iterator[TextPiece]:
    position = 0
    for text, ends in pieces:
        if part.stop is not None and position >= part.stop:
            return
        first = max(part.start - position, 0)
        last = len(text) if part.stop is None else min(part.stop - position, len(text))
        if first < last:
            yield TextPiece(text[first:last], ends and last == len(text))
        position += len(text)
