"""Tagged sentences as labelled texts: the label of a text is the tags of its words, with spaces between them.

    The<TAB>DET                               .conll or .tsv: a word a line, its tag in the last column, a blank line
    dog<TAB>NOUN                              between sentences; columns may be parted by spaces
    1<TAB>The<TAB>the<TAB>DET ...             .conllu: ten columns, of which FORM and UPOS are read
    The/DET dog/NOUN                          .txt: a sentence a line
    {"words": [...], "tags": [...]}           .jsonl or .ndjson
    two columns of lists, tokens and tags     .parquet, .arrow, or a folder of `datasets`

A reader of a format gives every sentence it finds, or why one is lost; a space inside a word becomes an underscore. A
word may be several tokens. Its tag is asked for at its last token; every other token asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.labels.labelled_texts import Labelling, LabelSettings
from regard.data.labels.labelled_tokenizer import LabelledTokenizer
from regard.data.pairs.pairs import TextPair
from regard.data.reading.arrow_tables import table_rows
from regard.data.reading.readers import TextFile
from regard.data.reading.records import DROP_IT
from regard.data.reading.shards import Shard
from regard.data.reading.tally import Tally
from regard.data.reading.two_fields import RawPair, list_names, lose, read_lines, read_objects
from regard.data.tokens.piece_words import piece_words
from regard.data.tokens.vocabulary import PAD, Tokenizer
from regard.errors import DataError

NO_TAG = "a word without a tag"
NO_FIELDS = "without words and tags"
WORDS, TAGS = ("words", "tokens"), ("tags",)         # columns of a table, unless the settings name others
SPACES = "words with spaces joined by _"
COLUMNS = 10                                         # of CoNLL-U
Cells = Callable[[str], tuple[str, str] | None]      # the word and the tag of a line; None: the line holds no word


class BadLine(Exception):
    """A line without a word and a tag; the message says what is wrong with it."""


def read_conll(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield each sentence of a file with a word a line: its first column is the word, its last the tag."""
    return _read_rows(source, data, tally, _first_and_last)


def read_conllu(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield each sentence of a treebank in CoNLL-U; comments, ranges of words and empty nodes are passed over."""
    return _read_rows(source, data, tally, _form_and_upos)


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


def _read_rows(source: TextFile, data: LabelSettings, tally: Tally, cells: Cells) -> Iterator[RawPair]:
    rows: list[tuple[str, str]] = []
    first = bad = ""
    for line in chain(read_lines(source, data.on_bad_text, tally), [RawPair("")]):
        if not line.source.strip() and not line.lost:            # a blank line, or the end: the sentence is whole
            if first:
                yield RawPair(first, lost=bad) if bad else _sentence(first, rows, data, tally)
            rows, first, bad = [], "", ""
            continue
        first, bad = first or line.where, bad or line.lost
        if line.lost:
            continue
        try:
            if row := cells(line.source):
                rows.append(row)
        except BadLine as mistake:
            bad = _refuse(line.where, f"has {mistake}", data)


def read_slashed(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield each line of word/TAG; the last slash of each counts."""
    for line in read_lines(source, data.on_bad_text, tally):
        parts = [part.rpartition("/") for part in line.source.split()]
        wrong = next((tag for word, _, tag in parts if not word or not tag), None)
        if line.lost or not parts:
            yield RawPair(line.where, lost=line.lost)
        elif wrong is not None:
            told = f"has {wrong[:40]!r} without a tag: write word/TAG"
            yield RawPair(line.where, lost=_refuse(line.where, told, data))
        else:
            yield _sentence(line.where, [(word, tag) for word, _, tag in parts], data, tally)


def read_tagged_jsonl(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield the words and tags of an object a line."""

    def sentence_of(record: Any, where: str) -> list[RawPair]:
        there = record if isinstance(record, dict) else {}
        names = [next((name for name in wanted if name in there), wanted[0]) for wanted in names_of_lists(data)]
        return [_of_lists(record, where, names, data, tally)]

    return read_objects(source, data.on_bad_text, tally, sentence_of, NO_FIELDS)


def read_columns(source: TextFile, data: LabelSettings, tally: Tally) -> Iterator[RawPair]:
    """Yield the words and tags of a row, each a list; a tag that has a name in the file is read by it."""
    for where, record in table_rows(source, lambda names: list_columns(names, data, source.name)):
        names = list_columns(list(record), data, source.name)
        try:
            pair = _of_lists(record, where, names, data, tally)
        except DataError as error:
            pair = lose(error, where, data.on_bad_text, NO_FIELDS)
        yield pair


def list_columns(names: Sequence[str], data: LabelSettings, where: str) -> list[str]:
    """Return the columns of words and of tags: as the settings name them, or as they are mostly called."""
    words, tags = (next((name for name in wanted if name in names), None) for wanted in names_of_lists(data))
    if words is None or tags is None:
        raise DataError(f"{where} has no words and tags (it has: {list_names(names)}): name their columns with "
                        "--text-field and --label-field")
    return [words, tags]


def names_of_lists(data: LabelSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what words and tags may be called: as the settings say, where they do."""
    return (WORDS if data.text == LabelSettings.text else (data.text,),
            TAGS if data.label == LabelSettings.label else (data.label,))


def _of_lists(record: Any, where: str, names: Sequence[str], data: LabelSettings, tally: Tally) -> RawPair:
    words, tags = (_strings(record, name) for name in names)
    if words is None or tags is None or len(words) != len(tags):
        raise DataError(f'{where} has no "{names[0]}" and "{names[1]}" of one length: write {{"words": ["A", "dog"], '
                        f'"tags": ["DET", "NOUN"]}}; {DROP_IT}')
    return _sentence(where, list(zip(words, tags, strict=True)), data, tally)


def _strings(record: Any, name: str) -> list[str] | None:
    values = record.get(name) if isinstance(record, dict) else None
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else None


def _sentence(where: str, rows: Sequence[tuple[str, str]], data: LabelSettings, tally: Tally) -> RawPair:
    """Return the tags and words of a sentence; each has one word and one tag, without spaces in them."""
    words, tags = (["_".join(row[column].split()) for row in rows] for column in (0, 1))
    if not all(words) or not all(tags):
        return RawPair(where, lost=_refuse(where, "begins a sentence with an empty word or tag", data))
    if any(cell.split() != [cell] for row in rows for cell in row):
        tally.mended[SPACES] += 1
    return RawPair(where, " ".join(tags), " ".join(words))


def _refuse(where: str, told: str, data: LabelSettings) -> str:
    """Return why a sentence is lost where bad ones are dropped; else refuse the file."""
    if data.on_bad_text != "drop":
        raise DataError(f"{where} {told}; {DROP_IT}")
    return NO_TAG


def asking_tokens(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[int]:
    """Return for each word of a text, parted by white space, the place of the token at which its tag is asked for: its
    last."""
    last: dict[int, int] = {}
    for place, word in enumerate(piece_words(tokenizer, text, ids, "whitespace")):
        if word >= 0:
            last[word] = place
    words = len(text.split())
    assert len(last) == words, f"{words - len(last)} words of {text[:80]!r} have no token"
    return [last[word] for word in range(words)]


def target_words(tokenizer: LabelledTokenizer, texts: Shard, pairs: Sequence[TextPair]) -> NDArray[np.int64]:
    """Return a target for each token of the encoded texts: the tag of a word at its last token, elsewhere <pad>."""
    targets = np.full(len(texts.tokens), PAD, np.int64)
    start = 0
    for number, ((tags, text), end) in enumerate(zip(pairs, texts.ends.tolist(), strict=True), 1):
        ids = texts.tokens[start:end - 1].tolist()                                             # without <eos>
        places = asking_tokens(tokenizer.text, text, ids)
        for place, tag in zip(places, tags.split(), strict=True):
            targets[start + place] = tokenizer.target(tag, f"sentence {number}")
        start = end
    return targets


OF_WORDS = Labelling(
    "word", {".conll": ("conll", read_conll), ".tsv": ("conll", read_conll), ".conllu": ("conllu", read_conllu),
             ".txt": ("slashed", read_slashed), ".jsonl": ("jsonl", read_tagged_jsonl),
             ".ndjson": ("jsonl", read_tagged_jsonl), ".parquet": ("parquet", read_columns),
             ".arrow": ("arrow", read_columns)},
    names=str.split, targets=target_words, shape="a word, a tab and its tag, with a blank line between sentences",
    stdin=".conll")
