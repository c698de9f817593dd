"""Records: JSONL lines and Parquet rows, one document each."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from regard.data.reading.lines import BLOCK, CURE, check_head, mend
from regard.data.reading.readers import ReadSettings, TextFile, TextPiece, open_source
from regard.data.reading.tally import BAD_JSON, BAD_UTF8, EMPTY, Tally
from regard.errors import DataError

LONGEST_RECORD = 2**26         # bytes; a JSON line has to be held whole to be parsed
ROWS_AT_ONCE = 256
MOST_UNPACKED = 20             # times its size is the most that a packed Parquet file has
DROP_IT = "mend it, or pass --on-bad-text drop"


class BadJson(DataError):
    """A line is not JSON."""


def read_records(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
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


def _parquet(source: TextFile, settings: ReadSettings) -> Iterator[tuple[str, str]]:
    def choose(names: list[str]) -> list[str]:
        if settings.field not in names:
            raise DataError(f"{source.name} has no column {settings.field!r} (it has: {', '.join(names)}): "
                            "name the right one with --set data.field=NAME")
        return [settings.field]

    for where, record in parquet_rows(source, choose):
        yield where, _as_text(record[settings.field], where)


def _unpack(stream: Any, unpacked: Any, source: TextFile) -> None:
    """Write what was packed, as far as it may be: Parquet is packed itself, and gzip makes little of it."""
    most, size = MOST_UNPACKED * (source.path.stat().st_size + 2**16), 0
    while piece := stream.read(BLOCK):
        size += len(piece)
        if size > most:
            raise DataError(f"{source.name} unpacks to more than {MOST_UNPACKED} times its size, as no Parquet file "
                            "does: unpack it yourself if it is one")
        unpacked.write(piece)


def parquet_rows(
    source: TextFile, choose: Callable[[list[str]], list[str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The place of each row and its values, of the columns that `choose` takes from all their names."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(f"{source.name} needs pyarrow to be read: pip install 'regard[parquet]'") from None
    with open_source(source) as stream, tempfile.TemporaryFile() as unpacked:
        if source.packed:                            # Parquet is read from its end, which gzip cannot reach
            _unpack(stream, unpacked, source)
        try:
            table = parquet.ParquetFile(unpacked if source.packed else stream)
            columns = choose(table.schema_arrow.names)
            row = 0
            for batch in table.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns, use_threads=False):
                for record in batch.to_pylist():
                    row += 1
                    yield f"{source.name} row {row}", record
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{source.name} is not a readable Parquet file ({reason}): write it again") from None
