"""Readers of sentence pairs, one function a format: each gives every pair it finds, or why one is lost.

Nothing is judged here but what the format itself can get wrong. A line or a segment of more than a mebibyte is
no sentence: it is passed over without ever being held, and lost as too long.
"""

from __future__ import annotations

import codecs
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from regard.data.reading.lines import HEAD, check_head
from regard.data.reading.readers import Source, open_source
from regard.data.reading.records import ROWS_AT_ONCE, decoded
from regard.data.reading.tally import BAD_JSON, BAD_UTF8, Tally
from regard.errors import DataError

LONGEST = 2**20              # bytes of a line, characters of a segment
TOO_LONG = "too long"
HEADER = "header"
WRONG_COLUMNS = "wrong number of columns"
NO_SIDES = "without both languages"
MARK = "\ufdd0"                # stands for bad bytes where a library parses the text; it is a character of no language
BAD = re.compile("[\udc80-\udcff\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")      # not UTF-8, or not allowed in XML
LAYOUT = " \t\r\n"          # white space that XML and gettext may put around a text
PLAIN_NAMES = ("source", "target")
OTHER_NAMES = (("document", "summary"), ("text", "summary"), ("article", "summary"), ("article", "highlights"))
CHANGED = "changed while it was read: try again when nothing writes to it"


class Found(NamedTuple):
    """A pair and its place, for messages; `lost` says why there is none."""

    where: str
    source: str = ""
    target: str = ""
    lost: str = ""


@dataclass(frozen=True)
class PairReading:
    """How pairs are read: which languages, what to do with bad bytes, whether fuzzy translations count."""

    languages: tuple[str, str] | None = None
    on_bad_text: str = "fail"
    fuzzy: bool = False


def read_aligned(first: Source, second: Source, how: PairReading, tally: Tally) -> Iterator[Found]:
    """Two files, the line of one beside that of the other."""
    both = zip_longest(raw_lines(first), raw_lines(second), fillvalue="ended")
    for number, (one, other) in enumerate(both, 1):
        where = f"{first.name} line {number}"
        if isinstance(one, str) or isinstance(other, str):
            raise DataError(f"{(first if isinstance(one, str) else second).name} {CHANGED}")
        if one is None or other is None:
            yield Found(where, lost=TOO_LONG)
            continue
        source = _text(one, where, how, tally)
        target = _text(other, f"{second.name} line {number}", how, tally)
        if source is None or target is None:
            yield Found(where, lost=BAD_UTF8)
        else:
            yield Found(where, source, target)


def read_tsv(source: Source, how: PairReading, tally: Tally) -> Iterator[Found]:
    """Columns parted by tabs: the two that the first line names, if it does, else the first and the second."""
    width, columns = 0, (0, 1)
    for number, raw in enumerate(raw_lines(source), 1):
        where = f"{source.name} line {number}"
        text = None if raw is None else _text(raw, where, how, tally)
        if text is None:
            yield Found(where, lost=TOO_LONG if raw is None else BAD_UTF8)
            continue
        cells = text.split("\t")
        named = choose(cells, how) if number == 1 else None
        if named:
            columns = (cells.index(named[0]), cells.index(named[1]))
        if not text.strip():
            yield Found(where)
            continue
        if not width and len(cells) > 1:
            width = len(cells)
        if len(cells) != width:
            if how.on_bad_text != "drop":
                raise DataError(_columns(where, len(cells), width))
            yield Found(where, lost=WRONG_COLUMNS)
        elif named:
            yield Found(where, lost=HEADER)
        else:
            yield Found(where, cells[columns[0]], cells[columns[1]])


def _columns(where: str, here: int, before: int) -> str:
    if here < 2:
        return f"{where} has no tab: a .tsv line is a source, a tab and a target; mend it, or pass --on-bad-text drop"
    return (f"{where} has {here} columns where the lines before have {before}: is there a tab inside a sentence? "
            "mend it, or pass --on-bad-text drop")


def read_jsonl(source: Source, how: PairReading, tally: Tally) -> Iterator[Found]:
    """An object a line: {"fr": ..., "en": ...}, {"source": ..., "target": ...}, or either inside "translation"."""
    for number, raw in enumerate(raw_lines(source), 1):
        where = f"{source.name} line {number}"
        text = None if raw is None else _text(raw, where, how, tally)
        if text is None:
            yield Found(where, lost=TOO_LONG if raw is None else BAD_UTF8)
        elif not text.strip():
            yield Found(where)
        else:
            yield _of_json(text, where, how)


def _of_json(text: str, where: str, how: PairReading) -> Found:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        if how.on_bad_text == "drop":
            return Found(where, lost=BAD_JSON)
        raise DataError(f"{where} is not JSON ({error}): mend it, or pass --on-bad-text drop") from None
    try:
        return _of_record(record, where, how)
    except DataError:
        if how.on_bad_text == "drop":
            return Found(where, lost=NO_SIDES)
        raise


def _of_record(record: Any, where: str, how: PairReading) -> Found:
    if isinstance(record, dict) and isinstance(record.get("translation"), dict):
        record = record["translation"]
    if not isinstance(record, dict):
        raise DataError(f"{where} is {type(record).__name__}, not an object: "
                        'write {"source": "...", "target": "..."}')
    names = choose(record, how)
    if names is None:
        raise DataError(f"{where} has no {_wanted(how)} (it has: {listed(record)}): {name_them(how)}")
    return Found(where, _side(record, names[0], where), _side(record, names[1], where))


def _side(record: Mapping[str, Any], name: str, where: str) -> str:
    value = record[name]
    if value is None:
        return ""                                    # dropped as empty
    if not isinstance(value, str):
        raise DataError(f"{where} holds {type(value).__name__} {repr(value)[:40]} as {name[:40]!r}: "
                        "text was expected; mend it, or pass --on-bad-text drop")
    return value


def read_parquet(source: Source, how: PairReading, tally: Tally) -> Iterator[Found]:
    """Two columns named as in JSONL, or one column "translation" that holds both."""
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
            columns = _parquet_columns(table.schema_arrow.names, source, how)
            row = 0
            for batch in table.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns, use_threads=False):
                for record in batch.to_pylist():
                    row += 1
                    yield _of_record(record, f"{source.name} row {row}", how)
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{source.name} is not a readable Parquet file ({reason}): write it again") from None


def _parquet_columns(names: list[str], source: Source, how: PairReading) -> list[str]:
    if "translation" in names:
        return ["translation"]
    found = choose(names, how)
    if found is None:
        raise DataError(f"{source.name} has no {_wanted(how)} (it has: {listed(names)}): {name_them(how)}")
    return list(found)


def raw_lines(source: Source) -> Iterator[bytes | None]:
    """The bytes of each line with its ending, or None for one that is too long to be held."""
    with open_source(source) as stream:
        head = stream.read(HEAD)
        stream.seek(len(head) - len(check_head(head, source.name)))          # past a byte order mark
        while raw := stream.readline(LONGEST):
            if len(raw) < LONGEST or raw.endswith(b"\n"):
                yield raw
                continue
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(LONGEST)
            yield None


def _text(raw: bytes, where: str, how: PairReading, tally: Tally) -> str | None:
    """The line without its ending, or None when it has bad bytes and is to be dropped."""
    if raw.endswith(b"\n"):
        raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
    return decoded(raw, where, how.on_bad_text, tally)


def marker(on_bad_text: str) -> Callable[[bytes], bytes]:
    """A function that puts a mark for every bad byte of UTF-8, block by block; under `fail` it changes nothing."""
    if on_bad_text == "fail":
        return bytes
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return lambda data: BAD.sub(MARK, decoder.decode(data)).encode()


def unmarked(found: Found, how: PairReading, tally: Tally) -> Found:
    """The pair with its marks replaced, or lost for them."""
    if how.on_bad_text == "fail" or MARK not in found.source + found.target:
        return found
    if how.on_bad_text == "drop":
        return Found(found.where, lost=BAD_UTF8)
    tally.mended["with bad UTF-8 replaced"] += 1
    return found._replace(source=found.source.replace(MARK, "\ufffd"), target=found.target.replace(MARK, "\ufffd"))


def choose(names: Collection[str], how: PairReading) -> tuple[str, str] | None:
    """Which of these names are the source and the target: the languages, else plainly source and target, else what
    documents and their summaries are mostly called."""
    for wanted in filter(None, (how.languages, PLAIN_NAMES, *OTHER_NAMES)):
        source, target = (max(names, key=partial(likeness, side), default="") for side in wanted)
        if likeness(wanted[0], source) and likeness(wanted[1], target) and source != target:
            return source, target
    return None


def likeness(wanted: str, found: str) -> int:
    """How well a language fits the one wanted: 3 exactly, 2 pt for pt-BR, 1 fr-FR for fr, 0 not at all."""
    if wanted == found:
        return 3
    wanted, found = (tag[:40].lower().replace("_", "-") for tag in (wanted, found))
    if wanted == found:
        return 3
    if found == wanted.split("-")[0]:
        return 2
    return int(found.split("-")[0] == wanted)


def _wanted(how: PairReading) -> str:
    source, target = how.languages or PLAIN_NAMES
    return f"{source!r} and {target!r}"


def name_them(how: PairReading) -> str:
    if how.languages:
        return "--langs must name the languages as the file does"
    return "say which language is translated into which, e.g. --langs fr-en"


def listed(names: Iterable[Any], most: int = 8) -> str:
    """Names from a file, safe to print on one line."""
    shown = [repr(name)[:40] for name in names]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")
