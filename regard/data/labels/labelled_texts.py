"""Labelled texts, streamed from files, with every line accounted for; and the settings of such data.

    label<TAB>text                            a .tsv; a first line that names the columns may stand above
    label,text                                a .csv, whose first line names the columns
    {"label": "...", "text": "..."}           a .jsonl or .ndjson
    two columns, label and text               a .parquet or .arrow, or a folder of `datasets`

A reader of a format gives every text it finds with its label, or why one is lost: the label as the source of what is
found, the text as its target. A text is kept or dropped whole, for a counted reason. What is kept has a label and a
text of one line, neither blank.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.labels.labelled_tokenizer import LabelledTokenizer
from regard.data.pairs.pairs import TextPair, mend_pair
from regard.data.reading.arrow_tables import table_rows
from regard.data.reading.readers import (
    ON_BAD_TEXT,
    TextFile,
    check_choice,
    each_address,
    find_in_folder,
    find_sources,
    name_first,
)
from regard.data.reading.records import DROP_IT
from regard.data.reading.saved_datasets import is_saved_dataset, refuse_splits
from regard.data.reading.shards import Shard
from regard.data.reading.tally import Tally
from regard.data.reading.two_fields import (
    DUPLICATE,
    LONGEST,
    RawPair,
    Row,
    came_before,
    list_names,
    lose,
    read_lines,
    read_objects,
    read_table,
    rows_before,
    tab_rows,
)
from regard.errors import DataError, SettingError

EMPTY_FIELD, NO_FIELDS = "empty label or text", "without a label and a text"


@dataclass(frozen=True)
class LabelSettings:
    """The [data] table of labelled texts: the files, the names of their columns, and what is held out."""

    files: tuple[str, ...]
    label: str = "label"               # the column or field with the label
    text: str = "text"                 # the column or field with the text
    drop_duplicates: bool = True       # a text with its label that came before, exactly; nothing is held out twice
    on_bad_text: str = "fail"          # fail · replace · drop
    valid: tuple[str, ...] = ()        # held-out texts of their own; none: `valid_share` of them, drawn at random
    valid_share: float = 0.1
    content: str = ""                  # a hash of the texts, filled in by training
    test: tuple[str, ...] = ()         # texts that training never reads: a trained model is measured on them
    halve: bool = False                # without them, hold out two halves: training sees one, the other is measured

    def __post_init__(self) -> None:
        check_choice("data.on_bad_text", self.on_bad_text, ON_BAD_TEXT)
        if self.label == self.text:
            raise SettingError(f"data.label and data.text are both {self.label!r}: name two columns")

    @property
    def names(self) -> str:
        return f"{self.label!r} and {self.text!r}"

    def columns(self, names: list[str], where: str) -> list[str]:
        """Return the columns with labels and texts; without them, a DataError that lists those there are."""
        if not {self.label, self.text} <= set(names):
            raise DataError(f"{where} has no columns {self.names} (it has: {list_names(names)}): name them with "
                            "--label-field and --text-field")
        return [self.label, self.text]


Reader = Callable[[TextFile, LabelSettings, Tally], Iterator[RawPair]]
Targets = Callable[[LabelledTokenizer, Shard, Sequence[TextPair]], NDArray[np.int64]]


@dataclass(frozen=True)
class Labelling:
    """The unit that a label belongs to: the whole text, or each word of it."""

    unit: str                                      # text · word: of which embedded corpora
    formats: Mapping[str, tuple[str, Reader]]      # the reader of each suffix of a file's name
    names: Callable[[str], list[str]]              # the labels that the label of one text is made of
    targets: Targets                               # (tokenizer, encoded texts, pairs) -> a target a text, or a token
    shape: str                                     # how a line looks, for messages
    stdin: str = ".tsv"                            # the format of what has no name


# ------------------------------------------------------------------------------------------------ readers


def read_tsv(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield a label and a text a line, parted by a tab; other columns are allowed where the first line names these."""
    return _read_table(tab_rows(source, data.on_bad_text, tally), data, width=2,
                       before=rows_before(source, data.on_bad_text))


def read_csv(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield the two columns that the first line names; a quoted text may have commas and line breaks in it."""
    return _read_table(_comma_rows(source, data, tally), data, header=True)


def read_jsonl(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield the two fields of an object a line; a label may be a number."""
    return read_objects(source, data.on_bad_text, tally,
                        lambda record, where: [_of_record(record, where, data)], NO_FIELDS)


def _of_record(record: Any, where: str, data: LabelSettings) -> RawPair:
    fields = record if isinstance(record, dict) else {}
    label, text = fields.get(data.label), fields.get(data.text)
    if isinstance(label, (bool, int)):
        label = json.dumps(label)
    if isinstance(label, str) and isinstance(text, str):
        return RawPair(where, label, text)
    there = f"it has: {list_names(fields)}" if fields else f"it is {type(record).__name__}, not an object"
    raise DataError(f"{where} has no text under {data.names} ({there}): {DROP_IT}, or name the fields with "
                    "--label-field and --text-field")


def read_columns(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield the two columns of these names; a label that has a name in the file is read by it."""
    for where, record in table_rows(source, lambda names: data.columns(names, source.name)):
        if None in (record[data.label], record[data.text]):
            yield RawPair(where, lost=EMPTY_FIELD)
            continue
        try:
            pair = _of_record(record, where, data)
        except DataError as error:
            pair = lose(error, where, data.on_bad_text, NO_FIELDS)
        yield pair


def _read_table(
    rows: Iterator[Row], data: LabelSettings, width: int = 0, header: bool = False, before: Iterable[Row] = (),
) -> Iterator[RawPair]:
    def find_columns(cells: list[str]) -> tuple[int, int] | None:
        both = data.label in cells and data.text in cells
        return (cells.index(data.label), cells.index(data.text)) if both else None

    def explain(where: str, cells: list[str], width: int, named: bool) -> str:
        if named:
            return f"{where} has {len(cells)} columns where the first line names {width}: {DROP_IT}"
        if header:
            return (f"{where} names no columns {data.names} (it has: {list_names(cells)}): the first line of a .csv "
                    "names its columns; name them with --label-field and --text-field")
        here = "no tab" if len(cells) < 2 else f"{len(cells)} columns"
        return f"{where} has {here}: a .tsv line is a label, a tab and a text; {DROP_IT}"

    return read_table(rows, data.on_bad_text, find_columns, explain, width, header, before)


def _comma_rows(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[Row]:
    """A bad line is lost by itself, before the table is parsed: inside a quoted text it takes the line away."""
    lost: list[Row] = []

    def lines() -> Iterator[str]:
        for line in read_lines(source, data.on_bad_text, tally):
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


# ------------------------------------------------------------------------------------------------ texts


def target_texts(tokenizer: LabelledTokenizer, texts: Shard, pairs: Sequence[TextPair]) -> NDArray[np.int64]:
    """Return (N,) targets, one a text."""
    return np.array([tokenizer.target(label, f"text {number}") for number, (label, _) in enumerate(pairs, 1)], np.int64)


OF_TEXTS = Labelling(
    "text", {".tsv": ("tsv", read_tsv), ".csv": ("csv", read_csv), ".jsonl": ("jsonl", read_jsonl),
             ".ndjson": ("jsonl", read_jsonl), ".parquet": ("parquet", read_columns),
             ".arrow": ("arrow", read_columns)},
    names=lambda label: [label], targets=target_texts, shape="a label, a tab and a text")


def read_labelled(
    data: LabelSettings, labelling: Labelling, tally: Tally | None = None, sources: list[TextFile] | None = None
) -> Iterator[TextPair]:
    """Yield every labelled text that is fit, in order, as (label, text); what is kept and dropped goes into the tally.

    `sources` are the files where they were found already."""
    tally = Tally() if tally is None else tally
    tally.noun = "text"
    sources = find_labelled_sources(data.files, labelling) if sources is None else sources
    seen: set[bytes] = set()
    for pair in fit_texts(sources, data, labelling, tally):
        if data.drop_duplicates and came_before("\n".join(pair).encode(), seen):
            tally.drop(DUPLICATE)
        else:
            tally.keep()
            yield pair
    refuse_none(sources, labelling, tally)


def fit_texts(
    sources: Sequence[TextFile], data: LabelSettings, labelling: Labelling, tally: Tally
) -> Iterator[TextPair]:
    """Yield every labelled text that is fit, in order, duplicates too; what is dropped goes into the tally."""
    readers = dict(labelling.formats.values())
    for source in sources:
        for found in readers[source.format](source, data, tally):
            pair, lost = mend_pair(found, data.on_bad_text, tally)
            pair = TextPair(pair.source.strip(), pair.target.strip())
            if lost := lost or ("" if all(pair) else EMPTY_FIELD):
                tally.drop(lost)
            else:
                yield pair


def refuse_none(sources: Sequence[TextFile], labelling: Labelling, tally: Tally) -> None:
    if not tally.kept:
        raise DataError(f"there are no labelled texts in {name_first(sources)} ({tally.line()}): "
                        f"a line is {labelling.shape}")


def find_labelled_sources(files: Sequence[str | os.PathLike[str]], labelling: Labelling) -> list[TextFile]:
    """Return the files meant by these names, each with the format that its name tells."""
    kinds = f"files of labelled texts: {' '.join(labelling.formats)}, or .gz of any"
    if not files:
        raise DataError(f"no labelled texts were given: name {kinds}")
    sources: list[TextFile] = []
    for name in each_address(files):
        if Path(name).is_dir():
            sources.extend(find_saved(Path(name), labelling, kinds))
            continue
        source = find_sources([name])[0]
        suffix = labelling.stdin if source.spool else Path(str(name)[:-3] if source.packed else name).suffix.lower()
        if suffix not in labelling.formats:
            raise DataError(f"{name} is none of the {kinds}; a line is {labelling.shape}")
        sources.append(replace(source, format=labelling.formats[suffix][0]))
    return sources


def find_saved(folder: Path, labelling: Labelling, kinds: str) -> list[TextFile]:
    """Return the files of a dataset that was saved in this folder; another folder is refused."""
    refuse_splits(folder)
    if not is_saved_dataset(folder) or ".arrow" not in labelling.formats:
        raise DataError(f"{folder} is a folder: name {kinds}" + ", or a folder of `datasets`")
    return find_in_folder(folder)


def whole_part(data: Any) -> Any:
    """Return the settings for what is measured on: it is measured whole, duplicates included."""
    return replace(data, drop_duplicates=False)
