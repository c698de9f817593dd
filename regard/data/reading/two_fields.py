"""Files of two texts a line, tables or JSONL: what sentence pairs, labelled texts and captioned pictures share.

Nothing is judged here but what the format itself can get wrong. A line of more than a mebibyte is no sentence: it is
passed over without ever being held, and lost as too long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from regard.data.reading.lines import HEAD, LONGEST, check_head, mend
from regard.data.reading.readers import TextFile, open_source
from regard.data.reading.records import DROP_IT, BadJson, decoded, encodable, parse_json
from regard.data.reading.tally import BAD_JSON, BAD_UTF8, Tally
from regard.errors import DataError, SettingError

TOO_LONG, HEADER, WRONG_COLUMNS, DUPLICATE = "too long", "header", "wrong number of columns", "duplicate"
BROKEN = "line breaks inside a sentence made spaces"
LINE_BREAK = re.compile(r"[ \t\r]*\n[ \t\r\n]*")
Row = tuple[str, list[str], str]             # the place of a line of a table, its cells, and why it is lost


class RawPair(NamedTuple):
    """Two texts and their place, for messages; `lost` says why there are none."""

    where: str
    source: str = ""
    target: str = ""
    lost: str = ""


def raw_lines(source: TextFile) -> Iterator[bytes | None]:
    """The bytes of each line with its ending, or None for one that is too long to be held."""
    with open_source(source) as stream:
        if not source.start:
            head = stream.read(HEAD)
            stream.seek(len(head) - len(check_head(head, source.name)))      # past a byte order mark
        while raw := stream.readline(LONGEST):
            if len(raw) < LONGEST or raw.endswith(b"\n"):
                yield raw
                continue
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(LONGEST)
            yield None


def decode_line(raw: bytes, where: str, on_bad_text: str, tally: Tally) -> str | None:
    """The line without its ending, or None when it has bad bytes and is to be dropped."""
    if raw.endswith(b"\n"):
        raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
    return decoded(raw, where, on_bad_text, tally)


def read_lines(source: TextFile, on_bad_text: str, tally: Tally) -> Iterator[RawPair]:
    """Each line as the source of a pair without a target, or the reason why it is lost."""
    for number, raw in enumerate(raw_lines(source), source.line):
        where = f"{source.name} line {number}"
        text = None if raw is None else decode_line(raw, where, on_bad_text, tally)
        yield RawPair(where, text or "", lost=TOO_LONG if raw is None else BAD_UTF8 if text is None else "")


def tab_rows(source: TextFile, on_bad_text: str, tally: Tally) -> Iterator[Row]:
    """The rows of a TSV file."""
    return ((line.where, line.source.split("\t"), line.lost) for line in read_lines(source, on_bad_text, tally))


def rows_before(source: TextFile, on_bad_text: str) -> Iterator[Row]:
    """The rows of a TSV file before this part of it, of which the first ones tell the columns; of a whole file none."""
    if source.start:
        yield from tab_rows(replace(source, start=0, stop=source.start, line=1), on_bad_text, Tally())


def read_table(
    rows: Iterable[Row], on_bad_text: str, find_columns: Callable[[list[str]], tuple[int, int] | None],
    explain: Callable[[str, list[str], int, bool], str], width: int = 0, header: bool = False,
    before: Iterable[Row] = (),
) -> Iterator[RawPair]:
    """The pairs of a table: of the columns that `find_columns` finds in its first row, else of the first two.

    Every row has `width` columns, or as many as the first. `explain` words the error of a row that has not, from its
    place, its cells, the width and whether the first row names columns; with `header` it must. The rows `before` are
    looked at until the columns are known.
    """
    table = TableReader(on_bad_text, find_columns, explain, width, header)
    for row in before:
        table.read(*row)
        if table.width:
            break
    for row in rows:
        yield table.read(*row)


@dataclass
class TableReader:
    """The rows of a table, read by the columns that the first ones tell."""

    on_bad_text: str
    find_columns: Callable[[list[str]], tuple[int, int] | None]
    explain: Callable[[str, list[str], int, bool], str]
    width: int
    header: bool
    columns: tuple[int, int] = (0, 1)
    named: bool = False
    begun: bool = False

    def read(self, where: str, cells: list[str], lost: str) -> RawPair:
        """Return the pair of a row, or why there is none."""
        first, self.begun = not self.begun, True
        if lost or not any(cell.strip() for cell in cells):
            return RawPair(where, lost=lost)
        if first and (found := self.find_columns(cells)):
            self.columns, self.width, self.named = found, len(cells), True
            return RawPair(where, lost=HEADER)
        if self.header and not self.named:
            raise DataError(self.explain(where, cells, self.width, self.named))
        self.width = self.width or (len(cells) if len(cells) > 1 else 0)
        if len(cells) == self.width:
            return RawPair(where, cells[self.columns[0]], cells[self.columns[1]])
        if self.on_bad_text == "drop":
            return RawPair(where, lost=WRONG_COLUMNS)
        raise DataError(self.explain(where, cells, self.width, self.named))


def read_objects(
    source: TextFile, on_bad_text: str, tally: Tally, pairs_of: Callable[[Any, str], list[RawPair]], incomplete: str
) -> Iterator[RawPair]:
    """The pairs of a JSONL file, an object a line; an object that `pairs_of` refuses is lost as `incomplete` where bad
    lines are dropped."""
    for line in read_lines(source, on_bad_text, tally):
        if line.lost or not line.source.strip():
            yield line._replace(source="")
            continue
        try:
            pairs = pairs_of(parse_json(line.source, line.where), line.where)
        except DataError as error:
            pairs = [lose(error, line.where, on_bad_text, incomplete)]
        yield from pairs


def lose(error: DataError, where: str, on_bad_text: str, incomplete: str) -> RawPair:
    """The record of this place as one that is lost, where bad ones are dropped; else its error is raised."""
    if on_bad_text != "drop":
        raise error
    return RawPair(where, lost=BAD_JSON if isinstance(error, BadJson) else incomplete)


def text_of(value: Any, name: str, where: str) -> str:
    """The text of a field; of one that is null, nothing, which is dropped as empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where} holds {type(value).__name__} {repr(value)[:40]} as {name[:40]!r}: "
                        f"text was expected; {DROP_IT}")
    return value


def join_lines(text: str, where: str, on_bad_text: str, tally: Tally) -> str | None:
    """The text as one line that can be written as UTF-8, or None when it is to be dropped."""
    clean = encodable(text, where, on_bad_text, tally)
    if clean is None:
        return None
    clean = mend(clean, tally)
    if "\n" in clean:
        clean = LINE_BREAK.sub(" ", clean)
        tally.mended[BROKEN] += 1
    return clean


def came_before(data: bytes, seen: set[bytes]) -> bool:
    """True if these bytes came before; `seen` holds their hashes."""
    digest = short_hash(data)
    before = digest in seen
    seen.add(digest)
    return before


def short_hash(data: bytes) -> bytes:
    """A hash of 16 bytes, by which duplicates are found."""
    return blake2b(data, digest_size=16).digest()


def check_limits(settings: Any, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < 0:
            raise SettingError(f"data.{name} {getattr(settings, name)} is impossible: "
                               "give a positive number, or 0 for no limit")


def list_names(names: Iterable[Any], most: int = 8) -> str:
    """Names from a file, safe to print on one line."""
    shown = [repr(name)[:40] for name in names]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")
