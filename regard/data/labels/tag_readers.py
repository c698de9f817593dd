"""Readers of tagged sentences, one function a format: each gives every sentence it finds, or why one is lost.

    The<TAB>DET                               .conll or .tsv: a word a line, its tag in the last column, a blank line
    dog<TAB>NOUN                              between sentences; columns may be parted by spaces
    1<TAB>The<TAB>the<TAB>DET ...             .conllu: ten columns, of which FORM and UPOS are read
    The/DET dog/NOUN                          .txt: a sentence a line
    {"words": [...], "tags": [...]}           .jsonl or .ndjson

What is found are the tags and the words, each joined by spaces; a space inside a word becomes an underscore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from regard.data.labels.label_readers import LabelReading
from regard.data.reading.readers import TextFile
from regard.data.reading.records import DROP_IT
from regard.data.reading.tally import Tally
from regard.data.reading.two_fields import RawPair, read_lines, read_objects
from regard.errors import DataError

NO_TAG = "a word without a tag"
NO_FIELDS = "without words and tags"
SPACES = "words with spaces joined by _"
COLUMNS = 10                                         # of CoNLL-U
Cells = Callable[[str], tuple[str, str] | None]      # the word and the tag of a line; None: the line holds no word


class BadLine(Exception):
    """A line without a word and a tag; the message says what is wrong with it."""


def read_conll(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[RawPair]:
    """Yield each sentence of a file with a word a line: its first column is the word, its last the tag."""
    return _read_rows(source, reading, tally, _first_and_last)


def read_conllu(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[RawPair]:
    """Yield each sentence of a treebank in CoNLL-U; comments, ranges of words and empty nodes are passed over."""
    return _read_rows(source, reading, tally, _form_and_upos)


def _first_and_last(line: str) -> tuple[str, str] | None:
    cells = line.split("\t") if "\t" in line else line.split(" ")
    if len(cells) < 2:
        raise BadLine("one column: a line is a word, a tab and a tag")
    return cells[0], cells[-1]


def _form_and_upos(line: str) -> tuple[str, str] | None:
    cells = line.split("\t")
    if line.startswith("#") and len(cells) < COLUMNS:
        return None
    if len(cells) != COLUMNS:
        raise BadLine(f"{len(cells)} columns: a line of CoNLL-U has {COLUMNS}")
    return None if "-" in cells[0] or "." in cells[0] else (cells[1], cells[3])


def _read_rows(source: TextFile, reading: LabelReading, tally: Tally, cells: Cells) -> Iterator[RawPair]:
    rows: list[tuple[str, str]] = []
    first = bad = ""
    for line in chain(read_lines(source, reading.on_bad_text, tally), [RawPair("")]):
        if not line.source.strip() and not line.lost:            # a blank line, or the end: the sentence is whole
            if first:
                yield RawPair(first, lost=bad) if bad else _sentence(first, rows, reading, tally)
            rows, first, bad = [], "", ""
            continue
        first, bad = first or line.where, bad or line.lost
        if line.lost:
            continue
        try:
            if row := cells(line.source):
                rows.append(row)
        except BadLine as mistake:
            bad = _refuse(line.where, f"has {mistake}", reading)


def read_slashed(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[RawPair]:
    """Yield each line of word/TAG; the last slash of each counts."""
    for line in read_lines(source, reading.on_bad_text, tally):
        parts = [part.rpartition("/") for part in line.source.split()]
        wrong = next((tag for word, _, tag in parts if not word or not tag), None)
        if line.lost or not parts:
            yield RawPair(line.where, lost=line.lost)
        elif wrong is not None:
            told = f"has {wrong[:40]!r} without a tag: write word/TAG"
            yield RawPair(line.where, lost=_refuse(line.where, told, reading))
        else:
            yield _sentence(line.where, [(word, tag) for word, _, tag in parts], reading, tally)


def read_tagged_jsonl(source: TextFile, reading: LabelReading, tally: Tally) -> Iterator[RawPair]:
    """Yield the words and tags of an object a line."""

    def sentence_of(record: Any, where: str) -> list[RawPair]:
        words, tags = (_strings(record, name) for name in ("words", "tags"))
        if words is None or tags is None or len(words) != len(tags):
            raise DataError(f'{where} has no "words" and "tags" of one length: write {{"words": ["A", "dog"], '
                            f'"tags": ["DET", "NOUN"]}}; {DROP_IT}')
        return [_sentence(where, list(zip(words, tags, strict=True)), reading, tally)]

    return read_objects(source, reading.on_bad_text, tally, sentence_of, NO_FIELDS)


def _strings(record: Any, name: str) -> list[str] | None:
    values = record.get(name) if isinstance(record, dict) else None
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else None


def _sentence(where: str, rows: Sequence[tuple[str, str]], reading: LabelReading, tally: Tally) -> RawPair:
    """Return the tags and words of a sentence; each has one word and one tag, without spaces in them."""
    words, tags = (["_".join(row[column].split()) for row in rows] for column in (0, 1))
    if not all(words) or not all(tags):
        return RawPair(where, lost=_refuse(where, "begins a sentence with an empty word or tag", reading))
    if any(cell.split() != [cell] for row in rows for cell in row):
        tally.mended[SPACES] += 1
    return RawPair(where, " ".join(tags), " ".join(words))


def _refuse(where: str, told: str, reading: LabelReading) -> str:
    """Return why a sentence is lost where bad ones are dropped; else refuse the file."""
    if reading.on_bad_text != "drop":
        raise DataError(f"{where} {told}; {DROP_IT}")
    return NO_TAG
