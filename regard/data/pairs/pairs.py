"""Sentence pairs: from two aligned files, or one file of pairs, to clean pairs, streamed, with every one accounted for.

A pair is kept or dropped whole, for a counted reason. What is kept has two sides, each one line of text that can be
written as UTF-8 and is not blank.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from regard.data.pairs.aligned import check_same_length
from regard.data.pairs.catalogs import read_mo, read_po
from regard.data.pairs.pair_readers import PairSettings, read_aligned, read_columns, read_jsonl, read_tsv
from regard.data.pairs.tmx import read_tmx
from regard.data.reading.readers import TextFile, each_address, find_in_folder, find_sources, name_first
from regard.data.reading.saved_datasets import is_saved_dataset, refuse_splits
from regard.data.reading.tally import BAD_UTF8, Tally
from regard.data.reading.two_fields import DUPLICATE, TOO_LONG, RawPair, came_before, join_lines
from regard.errors import DataError

Reader = Callable[[TextFile, PairSettings, Tally], Iterator[RawPair]]

FORMATS: dict[str, tuple[str, Reader]] = {
    ".tsv": ("tsv", read_tsv), ".jsonl": ("jsonl", read_jsonl), ".ndjson": ("jsonl", read_jsonl),
    ".tmx": ("tmx", read_tmx), ".po": ("po", read_po), ".mo": ("mo", read_mo), ".parquet": ("parquet", read_columns),
    ".arrow": ("arrow", read_columns)}
READERS = dict(FORMATS.values())
KINDS = " ".join(FORMATS)
EMPTY_SIDE, RATIO, IDENTICAL = "empty side", "length ratio", "identical sides"
SLACK = 30                 # characters by which one side may be longer than the other whatever the ratio


class TextPair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class DocumentSettings(PairSettings):
    """The [data] table of documents, which are long, and their summaries, which are much shorter."""

    max_words: int = 5000
    max_characters: int = 50_000
    max_ratio: float = 0.0


def read_pairs(
    settings: PairSettings, tally: Tally | None = None, sources: list[TextFile] | None = None
) -> Iterator[TextPair]:
    """Every pair that is fit, in order; what is kept and dropped goes into the tally.

    Two aligned files are counted first: if they have not the same number of lines, no pair comes at all. `sources` are
    the files where they were found already."""
    tally = Tally() if tally is None else tally
    tally.noun = "pair"
    sources = find_pair_sources(settings.files) if sources is None else sources
    check_sides(sources)
    seen: set[bytes] = set()
    for pair in fit_pairs(sources, settings, tally):
        if settings.drop_duplicates and came_before("\n".join(pair).encode(), seen):
            tally.drop(DUPLICATE)
        else:
            tally.keep()
            yield pair
    refuse_none(sources, tally)


def fit_pairs(sources: Sequence[TextFile], settings: PairSettings, tally: Tally) -> Iterator[TextPair]:
    """Every pair that is fit, in order, duplicates too; what is dropped goes into the tally."""
    for found in _read(sources, settings, tally):
        pair, lost = mend_pair(found, settings.on_bad_text, tally)
        if lost := lost or unfit(pair, settings):
            tally.drop(lost)
        else:
            yield pair


def check_sides(sources: Sequence[TextFile]) -> None:
    """Refuse two plain files that have not the same number of lines."""
    if sources[0].format == "text":
        first, second = sources
        check_same_length(first, second)


def refuse_none(sources: Sequence[TextFile], tally: Tally) -> None:
    if not tally.kept:
        raise DataError(f"there are no pairs left from {name_first(sources)} ({tally.line()}): "
                        "give files with sentences in them")


def check_aligned(files: Sequence[str | os.PathLike[str]]) -> int:
    """The number of lines of two aligned files; an error with the first suspicious line when it differs."""
    sources = find_pair_sources(files)
    if sources[0].format != "text":
        raise DataError(f"{sources[0].name} holds pairs: only two plain files can be aligned by line")
    first, second = sources
    return check_same_length(first, second)


def guess_langs(files: Sequence[str | os.PathLike[str]]) -> str:
    """`fr-en` for train.fr and train.en.gz; nothing when names do not tell."""
    ends = [Path(str(name).removesuffix(".gz")).suffix.lstrip(".").lower() for name in files]
    two = len(ends) == 2 and ends[0] != ends[1]
    return "-".join(ends) if two and all(re.fullmatch("[a-z]{2,3}", end) for end in ends) else ""


def find_pair_sources(files: Sequence[str | os.PathLike[str]]) -> list[TextFile]:
    """Two plain files, or any number of files of pairs."""
    kinds = f"two aligned text files (source, target), or files of pairs: {KINDS}, or .gz of any"
    if not files:
        raise DataError(f"no sentence pairs were given: name {kinds}")
    files = each_address(files)
    sources = [source for name in files for source in _named(name, kinds)]
    plain = [source for source in sources if source.format == "text"]
    if len(sources) == 1 and plain and plain[0].spool:
        return [replace(plain[0], format="tsv")]             # stdin, or a pipe
    if not plain:
        return sources
    if len(sources) != 2 or len(plain) != 2:
        raise DataError(f"{plain[0].name} is plain text and not sentence pairs by itself: name {kinds}")
    if plain[0].path.resolve() == plain[1].path.resolve():
        raise DataError(f"{files[0]} was given as source and as target: name two files")
    return sources


def _named(name: str | os.PathLike[str], kinds: str) -> list[TextFile]:
    """The file of this name, or those of a dataset that was saved in a folder of this name."""
    if Path(name).is_dir() and not is_saved_dataset(Path(name)):
        refuse_splits(Path(name))
        raise DataError(f"{name} is a folder: name {kinds}, or a folder of `datasets`")
    return find_in_folder(Path(name)) if Path(name).is_dir() else [_source(name)]


def _source(name: str | os.PathLike[str]) -> TextFile:
    source = find_sources([name])[0]
    suffix = Path(str(name)[:-3] if source.packed else name).suffix.lower()
    return replace(source, format=FORMATS[suffix][0] if suffix in FORMATS else "text")


def _read(sources: Sequence[TextFile], settings: PairSettings, tally: Tally) -> Iterator[RawPair]:
    if sources[0].format == "text":
        first, second = sources
        yield from read_aligned(first, second, settings, tally)
        return
    for source in sources:
        yield from READERS[source.format](source, settings, tally)


def mend_pair(raw: RawPair, on_bad_text: str, tally: Tally) -> tuple[TextPair, str]:
    """Return both sides as text of one line; or why that cannot be."""
    if raw.lost:
        return TextPair("", ""), raw.lost
    sides = []
    for side in (raw.source, raw.target):
        text = join_lines(side, raw.where, on_bad_text, tally)
        if text is None:
            return TextPair("", ""), BAD_UTF8
        sides.append(text)
    return TextPair(*sides), ""


def unfit(pair: TextPair, settings: PairSettings) -> str:
    """Why a pair is not fit to learn from, or nothing."""
    if any(not side or side.isspace() for side in pair):
        return EMPTY_SIDE
    short, long = sorted(map(len, pair))
    if settings.max_characters and long > settings.max_characters:
        return TOO_LONG
    if settings.max_words and max(len(side.split()) for side in pair) > settings.max_words:
        return TOO_LONG
    if settings.max_ratio and long > settings.max_ratio * short and long - short > SLACK:
        return RATIO
    return IDENTICAL if settings.drop_identical and pair.source == pair.target else ""
