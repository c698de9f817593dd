"""Readers of labelled texts, one function a format: each gives every text it finds with its label, or why one is lost.

    label<TAB>text                            a .tsv; a first line that names the columns may stand above
    label,text                                a .csv, whose first line names the columns
    {"label": "...", "text": "..."}           a .jsonl or .ndjson

The label is the source of what is found, the text its target.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.reading.readers import TextFile
from regard.data.reading.records import DROP_IT
from regard.data.reading.tally import Tally
from regard.data.reading.two_fields import (
    HEADER,
    LONGEST,
    WRONG_COLUMNS,
    RawPair,
    list_names,
    read_lines,
    read_objects,
)
from regard.errors import DataError

NO_FIELDS = "without a label and a text"
Row = tuple[str, list[str], str]             # the place of a line, its cells, and why it is lost


@dataclass(frozen=True)
class LabelReading:
    """Options for reading labelled texts: the names of the two columns, and what to do with bad lines."""

    label: str = "label"
    text: str = "text"
    on_bad_text: str = "fail"

    @property
    def names(self) -> str:
        return f"{self.label!r} and {self.text!r}"


Reader = Callable[[TextFile, LabelReading, Tally], Iterator[RawPair]]


def read_tsv(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[RawPair]:
    """Yield a label and a text a line, parted by a tab; other columns are allowed where the first line names these."""
    return _read_table(_tab_rows(source, reading, tally), reading, header=False)


def read_csv(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[RawPair]:
    """Yield the two columns that the first line names; a quoted text may have commas and line breaks in it."""
    return _read_table(_comma_rows(source, reading, tally), reading, header=True)


def read_jsonl(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[RawPair]:
    """Yield the two fields of an object a line; a label may be a number."""
    return read_objects(source, reading.on_bad_text, tally,
                        lambda record, where: [_of_record(record, where, reading)], NO_FIELDS)


def _of_record(record: Any, where: str, reading: LabelReading) -> RawPair:
    fields = record if isinstance(record, dict) else {}
    label, text = fields.get(reading.label), fields.get(reading.text)
    if isinstance(label, (bool, int)):
        label = json.dumps(label)
    if isinstance(label, str) and isinstance(text, str):
        return RawPair(where, label, text)
    there = f"it has: {list_names(fields)}" if fields else f"it is {type(record).__name__}, not an object"
    raise DataError(f"{where} has no text under {reading.names} ({there}): {DROP_IT}, or name the fields with "
                    "--label-field and --text-field")


def _read_table(rows: Iterator[Row], reading: LabelReading, header: bool) -> Iterator[RawPair]:
    label, text, width = 0, 1, 0
    for number, (where, cells, lost) in enumerate(rows):
        if lost or not any(cell.strip() for cell in cells):
            yield RawPair(where, lost=lost)
            continue
        if not number and {reading.label, reading.text} <= set(cells):
            label, text, width = cells.index(reading.label), cells.index(reading.text), len(cells)
            yield RawPair(where, lost=HEADER)
            continue
        if header and not width:
            raise DataError(f"{where} names no columns {reading.names} (it has: {list_names(cells)}): the first line "
                            "of a .csv names its columns; name them with --label-field and --text-field")
        if len(cells) == (width or 2):
            yield RawPair(where, cells[label], cells[text])
        elif reading.on_bad_text == "drop":
            yield RawPair(where, lost=WRONG_COLUMNS)
        else:
            raise DataError(_wrong_columns(where, cells, width))


def _wrong_columns(where: str, cells: Sequence[str], width: int) -> str:
    if width:
        return f"{where} has {len(cells)} columns where the first line names {width}: {DROP_IT}"
    here = "no tab" if len(cells) < 2 else f"{len(cells)} columns"
    return f"{where} has {here}: a .tsv line is a label, a tab and a text; {DROP_IT}"


def _tab_rows(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[Row]:
    for line in read_lines(source, reading.on_bad_text, tally):
        yield line.where, line.source.split("\t"), line.lost


def _comma_rows(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[Row]:
    """A bad line is lost by itself, before the table is parsed: inside a quoted text it takes the line away."""
    lost: list[Row] = []

    def lines() -> Iterator[str]:
        for line in read_lines(source, reading.on_bad_text, tally):
            if line.lost:
                lost.append((line.where, [], line.lost))
            else:
                yield line.source + "\n"

    csv.field_size_limit(LONGEST)
    rows = csv.reader(lines(), strict=True)
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise DataError(f"{source.name} line {rows.line_num} is no line of a .csv ({error}): {DROP_IT}") from None
        yield from lost
        lost.clear()
        if cells is None:
            return
        yield f"{source.name} line {rows.line_num}", cells, ""
