"""The settings of sentence pairs, and their readers, one function a format: each gives every pair it finds, or why one
is lost.

`two_fields` has what the formats share. Nothing is judged here but what the format itself can get wrong.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

from regard.data.reading.arrow_tables import table_rows
from regard.data.reading.readers import ON_BAD_TEXT, TextFile, check_choice
from regard.data.reading.records import DROP_IT
from regard.data.reading.tally import BAD_UTF8, Tally
from regard.data.reading.two_fields import (
    TOO_LONG,
    RawPair,
    check_limits,
    decode_line,
    list_names,
    raw_lines,
    read_objects,
    read_table,
    rows_before,
    tab_rows,
    text_of,
)
from regard.errors import DataError, SettingError

NO_SIDES = "without both languages"
MARK = "\ufdd0"                # stands for bad bytes where a library parses the text; it is a character of no language
BAD = re.compile("[\udc80-\udcff\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")      # not UTF-8, or not allowed in XML
LAYOUT = " \t\r\n"          # white space that XML and gettext may put around a text
PLAIN_NAMES = ("source", "target")
OTHER_NAMES = (("document", "summary"), ("text", "summary"), ("article", "summary"), ("article", "highlights"))
LANGUAGES = re.compile(r"([A-Za-z][A-Za-z0-9_]*)-([A-Za-z][A-Za-z0-9_]*)")
CHANGED = "changed while it was read: try again when nothing writes to it"


@dataclass(frozen=True)
class PairSettings:
    """The [data] table of pairs: the files, the languages, and what makes a pair unfit to learn from; a limit of 0 is
    none."""

    files: tuple[str, ...]
    langs: str = ""                    # fr-en: from French to English; a region after an underscore, pt_BR-en
    max_words: int = 250               # on either side, between white space
    max_characters: int = 2500         # on either side, for what is written without spaces
    max_ratio: float = 6.0             # of the longer side to the shorter one, in characters
    drop_duplicates: bool = True       # a pair that came before, exactly
    drop_identical: bool = False       # a source that is its own translation
    fuzzy: bool = False                # keep what a .po file marks as to be checked
    on_bad_text: str = "fail"          # fail · replace · drop
    valid: tuple[str, ...] = ()        # held-out pairs of their own; none: the last `valid_share` of them
    valid_share: float = 0.1
    content: str = ""                  # a hash of the pairs, filled in by training
    test: tuple[str, ...] = ()         # pairs that training never reads: a trained model is measured on them
    train_share: float = 1.0           # of the training part, its beginning: what is learned from; tokenizers see all
    halve: bool = False                # without them, hold out two halves: training sees one, the other is measured

    def __post_init__(self) -> None:
        if self.langs:
            found = LANGUAGES.fullmatch(self.langs)
            if not found:
                raise SettingError(f"data.langs {self.langs!r} is impossible: name two languages with a dash between "
                                   "them, e.g. fr-en, and a region after an underscore, e.g. pt_BR-en")
            if found[1].lower() == found[2].lower():
                raise SettingError(f"data.langs {self.langs!r} names one language twice: source and target need "
                                   "names of their own, e.g. fr-en")
        check_limits(self, "max_words", "max_characters")
        if self.max_ratio and not self.max_ratio >= 1:
            raise SettingError(f"data.max_ratio {self.max_ratio} is impossible: give at least 1, or 0 for no limit")
        check_choice("data.on_bad_text", self.on_bad_text, ON_BAD_TEXT)

    def columns(self, names: list[str], where: str) -> list[str]:
        """Return the columns with the pairs; without them, a DataError that lists those there are."""
        return pair_columns(names, where, self)

    @property
    def languages(self) -> tuple[str, str] | None:
        """The names of the source and target language, if they were given."""
        source, _, target = self.langs.partition("-")
        return (source, target) if target else None


def read_aligned(first: TextFile, second: TextFile, options: PairSettings, tally: Tally) -> Iterator[RawPair]:
    """Two files, the line of one beside that of the other."""
    both = zip_longest(raw_lines(first), raw_lines(second), fillvalue="ended")
    for number, (one, other) in enumerate(both, first.line):
        where = f"{first.name} line {number}"
        if isinstance(one, str) or isinstance(other, str):
            raise DataError(f"{(first if isinstance(one, str) else second).name} {CHANGED}")
        if one is None or other is None:
            yield RawPair(where, lost=TOO_LONG)
            continue
        source = decode_line(one, where, options.on_bad_text, tally)
        target = decode_line(other, f"{second.name} line {number}", options.on_bad_text, tally)
        if source is None or target is None:
            yield RawPair(where, lost=BAD_UTF8)
        else:
            yield RawPair(where, source, target)


def read_tsv(source: TextFile, options: PairSettings, tally: Tally) -> Iterator[RawPair]:
    """Columns parted by tabs: the two that the first line names, if it does, else the first and the second."""

    def find_columns(cells: list[str]) -> tuple[int, int] | None:
        named = choose(cells, options)
        return (cells.index(named[0]), cells.index(named[1])) if named else None

    rows = tab_rows(source, options.on_bad_text, tally)
    return read_table(rows, options.on_bad_text, find_columns, _explain_columns,
                      before=rows_before(source, options.on_bad_text))


def _explain_columns(where: str, cells: list[str], before: int, named: bool) -> str:
    if len(cells) < 2:
        return f"{where} has no tab: a .tsv line is a source, a tab and a target; {DROP_IT}"
    return (f"{where} has {len(cells)} columns where the lines before have {before}: is there a tab inside a sentence? "
            f"{DROP_IT}")


def read_jsonl(source: TextFile, options: PairSettings, tally: Tally) -> Iterator[RawPair]:
    """An object a line: {"fr": ..., "en": ...}, {"source": ..., "target": ...}, or either inside "translation"."""
    return read_objects(source, options.on_bad_text, tally,
                        lambda record, where: [_of_record(record, where, options)], NO_SIDES)


def _of_record(record: Any, where: str, options: PairSettings) -> RawPair:
    if isinstance(record, dict) and isinstance(record.get("translation"), dict):
        record = record["translation"]
    if not isinstance(record, dict):
        raise DataError(f"{where} is {type(record).__name__}, not an object: "
                        'write {"source": "...", "target": "..."}')
    names = choose(record, options)
    if names is None:
        raise DataError(f"{where} has no {_wanted(options)} (it has: {list_names(record)}): {name_them(options)}")
    return RawPair(where, *(text_of(record[name], name, where) for name in names))


def read_columns(source: TextFile, options: PairSettings, tally: Tally) -> Iterator[RawPair]:
    """Two columns named as in JSONL, or one column "translation" that holds both."""
    for where, record in table_rows(source, lambda names: pair_columns(names, source.name, options)):
        yield _of_record(record, where, options)


def pair_columns(names: list[str], where: str, options: PairSettings) -> list[str]:
    """Return the columns with the pairs; without them, a DataError that lists those there are."""
    if "translation" in names:
        return ["translation"]
    found = choose(names, options)
    if found is None:
        raise DataError(f"{where} has no {_wanted(options)} (it has: {list_names(names)}): {name_them(options)}")
    return list(found)


def marker(on_bad_text: str) -> Callable[[bytes], bytes]:
    """A function that puts a mark for every bad byte of UTF-8, block by block; under `fail` it changes nothing."""
    if on_bad_text == "fail":
        return bytes
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return lambda data: BAD.sub(MARK, decoder.decode(data)).encode()


def unmarked(pair: RawPair, options: PairSettings, tally: Tally) -> RawPair:
    """The pair with its marks replaced, or lost for them."""
    if options.on_bad_text == "fail" or MARK not in pair.source + pair.target:
        return pair
    if options.on_bad_text == "drop":
        return RawPair(pair.where, lost=BAD_UTF8)
    tally.mended["with bad UTF-8 replaced"] += 1
    return pair._replace(source=pair.source.replace(MARK, "\ufffd"), target=pair.target.replace(MARK, "\ufffd"))


def choose(names: Collection[str], options: PairSettings) -> tuple[str, str] | None:
    """Return the names of the source and the target: the languages, else plainly source and target, else what
    documents and their summaries are mostly called."""
    for wanted in filter(None, (options.languages, PLAIN_NAMES, *OTHER_NAMES)):
        source, target = (max(names, key=partial(likeness, side), default="") for side in wanted)
        if likeness(wanted[0], source) and likeness(wanted[1], target) and source != target:
            return source, target
    return None


def likeness(wanted: str, named: str) -> int:
    """The fit of a language to the one wanted: 3 exactly, 2 pt for pt-BR, 1 fr-FR for fr, 0 not at all."""
    if wanted == named:
        return 3
    wanted, named = (tag[:40].lower().replace("_", "-") for tag in (wanted, named))
    if wanted == named:
        return 3
    if named == wanted.split("-")[0]:
        return 2
    return int(named.split("-")[0] == wanted)


def _wanted(options: PairSettings) -> str:
    source, target = options.languages or PLAIN_NAMES
    return f"{source!r} and {target!r}"


def name_them(options: PairSettings) -> str:
    if options.languages:
        return "--langs must name the languages as the file does"
    return "say which language is translated into which, e.g. --langs fr-en"
