"""Records: JSONL lines and rows of Parquet or Arrow, one document each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from regard.data.reading.arrow_tables import table_rows
from regard.data.reading.lines import BLOCK, CURE, check_head, mend
from regard.data.reading.readers import ReadSettings, TextFile, TextPiece, open_source
from regard.data.reading.tally import BAD_JSON, BAD_UTF8, EMPTY, Tally
from regard.errors import DataError

LONGEST_RECORD = 2**26         # bytes; a JSON line has to be held whole to be parsed
DROP_IT = "mend it, or pass --on-bad-text drop"
NAME_IT = "name the right one with --field NAME"


class BadJson(DataError):
    """A line is not JSON."""


def read_records(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    """Every record's text in pieces; empty ones are dropped and counted."""
    records = _jsonl(source, settings, tally) if source.format == "jsonl" else _table(source, settings)
    for where, text in records:
        clean = encodable(text, where, settings.on_bad_text, tally)
        if clean is None:
            tally.drop(BAD_UTF8)
            continue
        clean = mend(clean, tally)
        if not clean or clean.isspace():
            tally.drop(EMPTY)
            continue
        tally.keep()
        yield from cut(clean)


def cut(text: str) -> Iterator[TextPiece]:
    """One document in pieces of at most a block: after a newline, else before a space, else anywhere."""
    start = 0
    while len(text) - start > BLOCK:
        end = text.rfind("\n", start, start + BLOCK) + 1 or text.rfind(" ", start + 1, start + BLOCK)
        end = end if end > start else start + BLOCK
        yield TextPiece(text[start:end], False)
        start = end
    yield TextPiece(text[start:], True)


def encodable(text: str, where: str, on_bad_text: str, tally: Tally) -> str | None:
    """The text without half surrogate pairs (JSON may spell them out), or None when it is to be dropped."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        if on_bad_text == "fail":
            bad = ord(text[error.start])
            raise DataError(f"{where} has half a surrogate pair (U+{bad:04X}) at character {error.start + 1}: "
                            f"{CURE}") from None
        if on_bad_text == "drop":
            return None
        tally.mended["with bad UTF-8 replaced"] += 1
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _jsonl(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[tuple[str, str]]:
    with open_source(source) as stream:
        number = source.line - 1
        while raw := stream.readline(LONGEST_RECORD + 1):
            number += 1
            where = f"{source.name} line {number}"
            if len(raw) > LONGEST_RECORD:
                raise DataError(f"{where} is longer than {LONGEST_RECORD // 2**20} MB: "
                                "a JSON line is one document; cut it into several")
            if number == 1 and not source.start:
                raw = check_head(raw, source.name)
            line = decoded(raw, where, settings.on_bad_text, tally)
            if line is None:
                tally.drop(BAD_UTF8)
            elif not line.strip():
                tally.drop(EMPTY)
            else:
                text = _text_of(line, where, settings)
                if text is None:
                    tally.drop(BAD_JSON)
                else:
                    yield where, text


def decoded(raw: bytes, where: str, on_bad_text: str, tally: Tally) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        if on_bad_text == "fail":
            message = f"{where}, byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8: {CURE}"
            raise DataError(message) from None
        if on_bad_text == "drop":
            return None
        tally.mended["with bad UTF-8 replaced"] += 1
        return raw.decode(errors="replace")


def parse_json(line: str, where: str) -> Any:
    """The value of a line, or BadJson."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadJson(f"{where} is not JSON ({error}): {DROP_IT}") from None


def _text_of(line: str, where: str, settings: ReadSettings) -> str | None:
    """The text in a JSON line, or None when the line is no JSON and is to be dropped."""
    try:
        value = parse_json(line, where)
    except BadJson:
        if settings.on_bad_text == "drop":
            return None
        raise
    if isinstance(value, dict):
        if settings.field not in value:
            raise DataError(f"{where} has no field {settings.field!r} (it has: {', '.join(map(str, value))}): "
                            f"{NAME_IT}")
        value = value[settings.field]
    return _as_text(value, where)


def _as_text(value: Any, where: str) -> str:
    if value is None:
        return ""                                    # a record without text: dropped as empty
    if not isinstance(value, str):
        raise DataError(f"{where} holds {type(value).__name__} {str(value)[:40]!r} where text was expected: "
                        "name a field of text with --field NAME")
    return value


def _table(source: TextFile, settings: ReadSettings) -> Iterator[tuple[str, str]]:
    for where, record in table_rows(source, lambda names: [find_column(names, settings.field, source.name)]):
        yield where, _as_text(record[settings.field], where)


def find_column(names: list[str], field: str, where: str) -> str:
    """Return the column with the text; without it, a DataError that lists those there are."""
    if field not in names:
        raise DataError(f"{where} has no column {field!r} (it has: {', '.join(map(str, names))}): {NAME_IT}")
    return field
