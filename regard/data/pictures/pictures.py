"""Captioned pictures: a folder of pictures with a captions file in it, or the captions file itself.

`captions.tsv` has a file name, a tab and a caption a line; `captions.jsonl` an object, {"image": ..., "caption": ...}.
A picture may have several captions. Names are relative to the captions file and may not lead out of its folder: a
captions file from elsewhere cannot make us read what it pleases. Every caption is kept, or dropped for a counted
reason.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.pairs.pair_readers import HEADER, TOO_LONG, WRONG_COLUMNS, listed, raw_lines
from regard.data.pairs.pairs import BROKEN as BROKEN_LINE
from regard.data.pairs.pairs import DUPLICATE, LINE_BREAK
from regard.data.pictures.picture_files import MISSING, OUTSIDE, SUFFIXES, BadPicture, check_file, shown
from regard.data.reading.lines import mend
from regard.data.reading.readers import ON_BAD_TEXT, Source, find_sources
from regard.data.reading.records import decoded, encodable
from regard.data.reading.tally import BAD_JSON, BAD_UTF8, Tally
from regard.errors import DataError, SettingError, did_you_mean

NAMES = ("captions.tsv", "captions.jsonl", "metadata.jsonl")      # looked for in a folder, also as .gz
FILE_FIELDS = ("image", "file", "file_name")
CAPTION_FIELDS = ("caption", "captions", "text")
ON_BAD_IMAGE = ("fail", "drop")
NO_CAPTION, NO_FIELDS = "empty caption", "without picture and caption"
UNUSED = "pictures without a caption left out"
DROP_IT = "mend it, or pass --on-bad-text drop"
NAME_THEM = "; if this line names the columns, call them image and caption"


class Captioned(NamedTuple):
    """A picture's file, what is to be said of it, and the place where that stands."""

    path: Path
    caption: str
    where: str


@dataclass(frozen=True)
class CaptionReading:
    """How captions are read, and what makes one unfit; a limit of 0 is none."""

    max_words: int = 100               # between white space
    max_characters: int = 1000
    drop_duplicates: bool = True       # the same caption of the same picture
    on_bad_text: str = "fail"          # fail · replace · drop
    on_bad_image: str = "fail"         # fail · drop

    def __post_init__(self) -> None:
        for name in ("max_words", "max_characters"):
            if getattr(self, name) < 0:
                raise SettingError(f"data.{name} {getattr(self, name)} is impossible: "
                                   "give a positive number, or 0 for no limit")
        for name, known in (("on_bad_text", ON_BAD_TEXT), ("on_bad_image", ON_BAD_IMAGE)):
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise SettingError(f"unknown data.{name} {value!r}{did_you_mean(value, known)}")


class Found(NamedTuple):
    """What a line of the captions file says; `lost` says why it is nothing."""

    where: str
    name: str = ""
    caption: str = ""
    lost: str = ""


def read_captioned(
    path: str | os.PathLike[str], settings: CaptionReading, tally: Tally | None = None
) -> Iterator[Captioned]:
    """Every picture with a caption, in the order of the captions; no picture is opened here."""
    tally = Tally() if tally is None else tally
    tally.noun = "caption"
    source = find_captions(path)
    folder = source.path.parent
    seen: set[bytes] = set()
    used: set[Path] = set()
    read = _read_tsv if source.format == "tsv" else _read_jsonl
    for found in read(source, settings, tally):
        caption, lost = _mended(found, settings, tally)
        picture = folder / found.name
        lost = lost or unfit(caption, settings) or _unusable(folder, found, settings) \
            or _again(picture, caption, settings, seen)
        used.add(picture)
        if lost:
            tally.drop(lost)
        else:
            tally.keep()
            yield Captioned(picture, caption, found.where)
    if Path(path).is_dir():
        tally.mended += Counter({UNUSED: len(set(_search(folder)) - used)})
    if not tally.kept:
        raise DataError(f"there are no captions left from {source.name} ({tally.line()}): "
                        "give a file name, a tab and a caption a line")


def find_captions(path: str | os.PathLike[str]) -> Source:
    """The captions file meant: the one in a folder, or the file itself."""
    if str(path) == "-":
        raise DataError("captions cannot be read from stdin, where pictures have no folder: name a folder or a file")
    given = Path(path)
    if given.is_dir():
        names = [name + end for name in NAMES for end in ("", ".gz") if (given / (name + end)).is_file()]
        if not names:
            raise DataError(f"{given} has no captions in it: write {NAMES[0]} (a file name, a tab and a caption a "
                            f"line) or {NAMES[1]}, or name the captions file itself")
        if len(names) > 1:
            raise DataError(f"{given} has several captions files ({', '.join(names)}): name the one that is meant")
        given = given / names[0]
    if given.suffix.lower() in SUFFIXES:
        raise DataError(f"{shown(given)} is a picture: name its folder, or the captions file")
    source = find_sources([given])[0]
    suffix = Path(str(given)[:-3] if source.packed else given).suffix.lower()
    format = {".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(suffix)
    if format is None or source.spool:
        raise DataError(f"{shown(given)} is no captions file: give .tsv or .jsonl, a .gz of one, or a folder with one")
    return Source(source.name, source.path, format, source.packed)


def locate(folder: Path, name: str) -> Path:
    """The file of this name in the folder; one that leads out of it, by .. or by a link, is refused."""
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):              # a name too long or with a NUL, links in a ring
        check_file(path)                                     # says what is wrong with it
        raise BadPicture(OUTSIDE, f"the picture {shown(name)} leads nowhere: mend the link") from None
    if not inside:
        raise BadPicture(OUTSIDE, f"the picture {shown(name)} lies outside {shown(folder)}: copy it into that folder")
    check_file(path)
    return path


def unfit(caption: str, settings: CaptionReading) -> str:
    """Why a caption is not fit to learn from, or nothing."""
    if not caption or caption.isspace():
        return NO_CAPTION
    if settings.max_characters and len(caption) > settings.max_characters:
        return TOO_LONG
    return TOO_LONG if settings.max_words and len(caption.split()) > settings.max_words else ""


def _unusable(folder: Path, found: Found, settings: CaptionReading) -> str:
    """Why there is no picture where a line says, if such lines are to be dropped; else an error."""
    try:
        locate(folder, found.name)
        return ""
    except BadPicture as bad:
        if settings.on_bad_image == "drop":
            return bad.reason
        heading = bad.reason == MISSING and found.where.endswith(" line 1") and not Path(found.name).suffix
        raise BadPicture(bad.reason, f"{found.where}: {bad}{NAME_THEM if heading else ''}, "
                         "or pass --on-bad-image drop") from None


def _again(picture: Path, caption: str, settings: CaptionReading, seen: set[bytes]) -> str:
    """Whether this was said of this picture before: hashes of 16 bytes are kept."""
    if not settings.drop_duplicates:
        return ""
    digest = blake2b(os.fsencode(picture) + b"\0" + caption.encode(), digest_size=16).digest()
    if digest in seen:
        return DUPLICATE
    seen.add(digest)
    return ""


def _search(folder: Path) -> Iterator[Path]:
    """Every picture of the folder, by its name."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent) / name for name in names
                    if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES)


def _mended(found: Found, settings: CaptionReading, tally: Tally) -> tuple[str, str]:
    """The caption as text of one line; or why that cannot be."""
    if found.lost:
        return "", found.lost
    if encodable(found.name, found.where, "fail" if settings.on_bad_text == "fail" else "drop", tally) is None:
        return "", BAD_UTF8                                   # a file name is not to be guessed
    text = encodable(found.caption, found.where, settings.on_bad_text, tally)
    if text is None:
        return "", BAD_UTF8
    text = mend(text, tally).strip()
    if "\n" in text:
        text = LINE_BREAK.sub(" ", text)
        tally.mended[BROKEN_LINE] += 1
    return text, ""


def _lines(source: Source, settings: CaptionReading, tally: Tally) -> Iterator[tuple[str, str | None, str]]:
    """Place and text of each line; for one that cannot be read, None and why."""
    for number, raw in enumerate(raw_lines(source), 1):
        where = f"{source.name} line {number}"
        if raw is None:
            yield where, None, TOO_LONG
            continue
        text = decoded(raw.removesuffix(b"\n").removesuffix(b"\r"), where, settings.on_bad_text, tally)
        yield where, text, BAD_UTF8


def _read_tsv(source: Source, settings: CaptionReading, tally: Tally) -> Iterator[Found]:
    """Columns parted by tabs: the two that the first line names, if it does, else a name and a caption."""
    columns, width = (0, 1), 2
    for at, (where, text, lost) in enumerate(_lines(source, settings, tally)):
        cells = [] if text is None else text.split("\t")
        if text is None:
            yield Found(where, lost=lost)
        elif not text.strip():
            yield Found(where)
        elif at == 0 and (named := _header(cells)):
            columns, width = named, len(cells)
            yield Found(where, lost=HEADER)
        elif len(cells) != width:
            if settings.on_bad_text != "drop":
                raise DataError(_columns(where, len(cells), width))
            yield Found(where, lost=WRONG_COLUMNS)
        else:
            yield Found(where, cells[columns[0]].strip(), cells[columns[1]])


def _header(cells: list[str]) -> tuple[int, int] | None:
    names = [cell.strip().lower() for cell in cells]
    found = [next((names.index(field) for field in fields if field in names), -1)
             for fields in (FILE_FIELDS, CAPTION_FIELDS)]
    return None if -1 in found else (found[0], found[1])


def _columns(where: str, here: int, wanted: int) -> str:
    if here < 2:
        return f"{where} has no tab: a line is a file name, a tab and a caption; {DROP_IT}"
    return f"{where} has {here} columns, not {wanted}: is there a tab inside a caption? {DROP_IT}"


def _read_jsonl(source: Source, settings: CaptionReading, tally: Tally) -> Iterator[Found]:
    """An object a line; a list of captions stands for as many lines."""
    for where, text, lost in _lines(source, settings, tally):
        if text is None:
            yield Found(where, lost=lost)
        elif not text.strip():
            yield Found(where)
        else:
            yield from _of_json(text, where, settings)


def _of_json(text: str, where: str, settings: CaptionReading) -> list[Found]:
    """What a line holds, or one that is lost where bad lines are to be dropped."""
    try:
        return _of_record(json.loads(text), where)
    except (ValueError, RecursionError) as error:
        if settings.on_bad_text == "drop":
            return [Found(where, lost=BAD_JSON)]
        raise DataError(f"{where} is not JSON ({str(error)[:120]}): {DROP_IT}") from None
    except DataError:
        if settings.on_bad_text == "drop":
            return [Found(where, lost=NO_FIELDS)]
        raise


def _of_record(record: Any, where: str) -> list[Found]:
    if not isinstance(record, dict):
        raise DataError(f"{where} is {type(record).__name__}, not an object: "
                        'write {"image": "...", "caption": "..."}')
    name, caption = (next((field for field in fields if field in record), None)
                     for fields in (FILE_FIELDS, CAPTION_FIELDS))
    if name is None or caption is None:
        raise DataError(f"{where} has no {FILE_FIELDS[0]!r} and {CAPTION_FIELDS[0]!r} (it has: {listed(record)}): "
                        'write {"image": "...", "caption": "..."}')
    said = record[caption] if isinstance(record[caption], list) else [record[caption]]
    file = _string(record[name], name, where)
    return [Found(where, file, _string(each, caption, where)) for each in said] or [Found(where)]


def _string(value: Any, field: str, where: str) -> str:
    if value is None:
        return ""                                             # dropped as empty
    if not isinstance(value, str):
        raise DataError(f"{where} holds {type(value).__name__} {repr(value)[:40]} as {field!r}: "
                        f"text was expected; {DROP_IT}")
    return value
