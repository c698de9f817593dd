"""Rows of Parquet and Arrow files, some columns at a time; and of frames, as Polars and pandas have them.

Hugging Face `datasets` saves Arrow files, in which a label is a number and its name stands in the schema: the name is
what is read. pyarrow does the reading; neither `datasets` nor a library of frames is needed.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from regard.data.reading.lines import BLOCK
from regard.data.reading.readers import TextFile, open_source
from regard.data.reading.unpacking import FROM, MOST
from regard.errors import DataError

ROWS_AT_ONCE = 256
MOST_UNPACKED = 20                       # times its size is the most that a packed file has
FEW_ROWS, DENSEST = 100_000, 10          # rows that any file may have; more only so many for each of its bytes
TITLES = {"parquet": "Parquet", "arrow": "Arrow"}
FILE_MARK = b"ARROW1"                    # an Arrow file begins so; what `datasets` writes is a stream, without it
Row = dict[str, Any]
Choose = Callable[[list[str]], list[str]]


def table_rows(source: TextFile, choose: Choose) -> Iterator[tuple[str, Row]]:
    """Yield the place of each row and its values, of the columns that `choose` takes from all their names."""
    arrow = import_arrow(source.name)
    with open_source(source) as stream, tempfile.TemporaryFile() as unpacked:
        if source.packed:                            # both are read from their ends, which gzip cannot reach
            unpack(stream, unpacked, source)
        try:
            opened = open_parquet if source.format == "parquet" else open_arrow
            plain = cast(BinaryIO, unpacked) if source.packed else stream
            schema, batches = opened(plain, choose)
            rows = refuse_bombs(rows_of(schema, batches), plain, source.name)
            for number, row in enumerate(rows, 1):
                yield f"{source.name} row {number}", row
        except (arrow.ArrowException, UnicodeDecodeError, MemoryError) as error:
            reason = " ".join(str(error).split())[:200] or "it asks for more memory than there is"
            raise DataError(f"{source.name} is not a readable {TITLES[source.format]} file ({reason}): write it "
                            "again") from None


def unpack(stream: BinaryIO, unpacked: Any, source: TextFile) -> None:
    """Write what was packed, as far as it may be: both are packed themselves, and gzip makes little of them."""
    most, size = MOST_UNPACKED * (source.path.stat().st_size + 2**16), 0
    while piece := stream.read(BLOCK):
        size += len(piece)
        if size > most:
            raise DataError(f"{source.name} unpacks to more than {MOST_UNPACKED} times its size, as no "
                            f"{TITLES[source.format]} file does: unpack it yourself if it is one")
        unpacked.write(piece)
    unpacked.seek(0)


def import_arrow(name: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"{name} needs pyarrow to be read: pip install 'regard[parquet]'") from None
    return pyarrow


def open_parquet(stream: BinaryIO, choose: Choose) -> tuple[Any, Iterable[Any]]:
    import pyarrow.parquet as parquet

    table = parquet.ParquetFile(stream)
    rows, size = table.metadata.num_rows, stream.seek(0, io.SEEK_END)
    if rows > max(FEW_ROWS, DENSEST * size):
        raise DataError(f"a Parquet file of {size:,} bytes says that it has {rows:,} rows, as no text does: write it "
                        "again")
    columns = choose(table.schema_arrow.names)
    return table.schema_arrow, table.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns, use_threads=False)


def open_arrow(stream: BinaryIO, choose: Choose) -> tuple[Any, Iterable[Any]]:
    """Return the schema and the record batches, each checked whole: its numbers would else lead outside its bytes."""
    from pyarrow import ipc

    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    begins = stream.read(len(FILE_MARK))
    stream.seek(0)
    if begins == FILE_MARK:
        table = ipc.open_file(stream)
        batches: Iterable[Any] = (table.get_batch(number) for number in range(table.num_record_batches))
    else:
        table = batches = ipc.open_stream(stream)
    columns = choose(table.schema.names)
    return table.schema, checked((batch.select(columns) for batch in batches), max(FEW_ROWS, DENSEST * size))


def checked(batches: Iterable[Any], most: int) -> Iterator[Any]:
    """Yield record batches without damage, and with at most so many entries in all: an entry may take no byte."""
    entries = 0
    for batch in batches:
        batch.validate(full=True)
        entries += sum(map(count_entries, batch.columns))
        if entries > most:
            raise DataError(f"an Arrow file says that it has more than {most:,} entries, as no text of its size does: "
                            "write it again")
        yield batch


def count_entries(array: Any) -> int:
    """Return the number of entries of an array and of all that it holds."""
    inside = getattr(array, "values", None)                          # of lists
    if inside is not None and hasattr(inside, "type"):
        return len(array) + count_entries(inside)
    return len(array) + sum(count_entries(array.field(at)) for at in range(array.type.num_fields)
                            if hasattr(array, "field"))


def refuse_bombs(rows: Iterable[Row], stream: BinaryIO, name: str) -> Iterator[Row]:
    """Yield rows as long as they hold no more than text is packed: many may share the bytes of one."""
    place, held = stream.tell(), 0
    size = stream.seek(0, io.SEEK_END)
    stream.seek(place)
    for row in rows:
        held += sum(len(value) for value in row.values() if isinstance(value, str | bytes | list))
        if held > max(FROM, MOST * size):
            raise DataError(f"{name} unpacks to more than {MOST} times its size, as no text does: write it again")
        yield row


def rows_at_once(batch: Any) -> int:
    """Return how many rows are made at once: one, where rows may share the bytes of a long text."""
    from pyarrow import types

    shared = any(types.is_dictionary(each) or types.is_run_end_encoded(each) or "view" in str(each)
                 for each in batch.schema.types)
    return 1 if shared else ROWS_AT_ONCE


def rows_of(schema: Any, batches: Iterable[Any]) -> Iterator[Row]:
    """Yield the rows of record batches, few at a time, with the names of labels in the place of their numbers."""
    labels = label_names(schema)
    for batch in batches:
        step = rows_at_once(batch)
        for first in range(0, batch.num_rows, step):
            for row in batch.slice(first, step).to_pylist():
                yield {name: spell(value, labels[name]) if name in labels else value for name, value in row.items()}


def label_names(schema: Any) -> dict[str, list[str]]:
    """Return the names of the labels of each column that `datasets` marked as such."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        found = {name: names_in(feature) for name, feature in features.items()}
    except (KeyError, TypeError, ValueError, AttributeError):        # it is not theirs, or no use
        return {}
    return {name: names for name, names in found.items() if names is not None}


def names_in(feature: Any) -> list[str] | None:
    """Return the names of a label, or of the labels in a list."""
    if not isinstance(feature, dict):
        return None
    names = feature.get("names")
    if feature.get("_type") == "ClassLabel" and isinstance(names, list):
        return [str(name) for name in names]
    return names_in(feature.get("feature"))


def spell(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a label; -1, which stands for none, is nothing."""
    if isinstance(value, list):
        return [spell(each, names) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return names[value] if 0 <= value < len(names) else None
    return value


# ------------------------------------------------------------------------------------------------ frames


def is_frame(value: Any) -> bool:
    """True for what holds columns and can be read as Arrow: a frame of Polars or pandas, a table of pyarrow."""
    return hasattr(value, "__arrow_c_stream__") and not isinstance(value, str)


@contextmanager
def frame_file(files: Any, field: str) -> Iterator[Any]:
    """Yield names of files as they are; for a frame that of a file with its texts, which goes again."""
    if not is_frame(files):
        yield files
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="regard-frame-", suffix=".jsonl") as kept:
        kept.writelines(f"{line}\n" for line in frame_lines(files, list, field))
        kept.flush()
        yield [kept.name]


def frame_lines(frame: Any, choose: Choose, field: str) -> Iterator[str]:
    """Yield the rows of a frame as lines of JSONL: the same for the same rows, whatever library held them."""
    for number, row in enumerate(frame_rows(frame, choose, field), 1):
        try:
            yield json.dumps(row, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"row {number} of the frame holds what is no text ({error}): give columns of text") \
                from None


def frame_rows(frame: Any, choose: Choose, field: str) -> Iterator[Row]:
    """Yield the rows of a frame, of the columns that `choose` takes; a single column without a name is `field`."""
    arrow = import_arrow("a frame")
    try:
        try:
            reader = arrow.RecordBatchReader.from_stream(frame)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):           # a column by itself, as a Series is
            reader = arrow.table({field: arrow.chunked_array(frame)}).to_reader()
        columns = choose(reader.schema.names)
        yield from rows_of(reader.schema, (batch.select(columns) for batch in reader))
    except arrow.ArrowException as error:
        raise DataError(f"the frame cannot be read as Arrow ({str(error).splitlines()[0]}): give columns of text") \
            from None
