"""Records: JSONL lines and Parquet rows, one document each."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from regard.data.reading.lines import BLOCK, CURE, check_head, mend
from regard.data.reading.readers import Piece, ReadSettings, Source, open_source
from regard.data.reading.tally import BAD_JSON, BAD_UTF8, EMPTY, Tally
from regard.errors import DataError

LONGEST_RECORD = 2**26         # bytes; a JSON line has to be held whole to be parsed
ROWS_AT_ONCE = 256


def read_records(source: Source, settings: ReadSettings, tally: Tally) -> Iterator[Piece]:
    """Every record's text in pieces; empty ones are dropped and counted."""
    records = _jsonl(source, settings, tally) if source.format == "jsonl" else _parquet(source, settings)
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


def cut(text: str) -> Iterator[Piece]:
    """One document in pieces of at most a block: after a newline, else before a space, else anywhere."""
    start = 0
    while len(text) - start > BLOCK:
        end = text.rfind("\n", start, start + BLOCK) + 1 or text.rfind(" ", start + 1, start + BLOCK)
        end = end if end > start else start + BLOCK
        yield Piece(text[start:end], False)
        start = end
    yield Piece(text[start:], True)


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


def _jsonl(source: Source, settings: ReadSettings, tally: Tally) -> Iterator[tuple[str, str]]:
    with open_source(source) as stream:
        number = 0
        while raw := stream.readline(LONGEST_RECORD + 1):
            number += 1
            where = f"{source.name} line {number}"
            if len(raw) > LONGEST_RECORD:
                raise DataError(f"{where} is longer than {LONGEST_RECORD // 2**20} MB: "
                                "a JSON line is one document; cut it into several")
            if number == 1:
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


def _text_of(line: str, where: str, settings: ReadSettings) -> str | None:
    """The text in a JSON line, or None when the line is no JSON and is to be dropped."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        if settings.on_bad_text == "drop":
            return None
        raise DataError(f"{where} is not JSON ({error}): mend it, or pass --on-bad-text drop") from None
    if isinstance(value, dict):
        if settings.field not in value:
            raise DataError(f"{where} has no field {settings.field!r} (it has: {', '.join(map(str, value))}): "
                            "name the right one with --set data.field=NAME")
        value = value[settings.field]
    return _as_text(value, where)


def _as_text(value: Any, where: str) -> str:
    if value is None:
        return ""                                    # a record without text: dropped as empty
    if not isinstance(value, str):
        raise DataError(f"{where} holds {type(value).__name__} {str(value)[:40]!r} where text was expected: "
                        "name a field of text with --set data.field=NAME")
    return value


def _parquet(source: Source, settings: ReadSettings) -> Iterator[tuple[str, str]]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(f"{source.name} needs pyarrow to be read: pip install 'regard[parquet]'") from None
    with open_source(source) as stream, tempfile.TemporaryFile() as unpacked:
        if source.packed:                            # Parquet is read from its end, which gzip cannot reach
            shutil.copyfileobj(stream, unpacked)
        try:
            table = parquet.ParquetFile(unpacked if source.packed else stream)
            _check_column(table.schema_arrow.names, source, settings)
            row = 0
            for batch in table.iter_batches(batch_size=ROWS_AT_ONCE, columns=[settings.field], use_threads=False):
                for value in batch.column(0).to_pylist():
                    row += 1
                    yield f"{source.name} row {row}", _as_text(value, f"{source.name} row {row}")
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{source.name} is not a readable Parquet file ({reason}): write it again") from None


def _check_column(names: list[str], source: Source, settings: ReadSettings) -> None:
    if settings.field not in names:
        raise DataError(f"{source.name} has no column {settings.field!r} (it has: {', '.join(names)}): "
                        "name the right one with --set data.field=NAME")
