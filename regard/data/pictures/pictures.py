"""Captioned pictures: a folder of pictures with a captions file in it, or the captions file itself.

`captions.tsv` has a file name, a tab and a caption a line; `captions.jsonl` an object, {"image": ..., "caption": ...}.
A picture may have several captions. Names are relative to the captions file and may not lead out of its folder: a
captions file from elsewhere cannot make us read what it pleases. Every caption is kept, or dropped for a counted
reason.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.corpora.shapes_drawing import SIDE
from regard.data.pictures.picture_files import MISSING, OUTSIDE, SUFFIXES, BadPicture, check_file, shown
from regard.data.reading.readers import ON_BAD_TEXT, TextFile, check_choice, find_files, find_sources
from regard.data.reading.records import DROP_IT, encodable
from regard.data.reading.tally import BAD_UTF8, Tally
from regard.data.reading.two_fields import (
    DUPLICATE,
    TOO_LONG,
    RawPair,
    came_before,
    check_limits,
    join_lines,
    list_names,
    read_objects,
    read_table,
    tab_rows,
    text_of,
)
from regard.errors import DataError, SettingError

NAMES = ("captions.tsv", "captions.jsonl", "metadata.jsonl")      # looked for in a folder, also as .gz
FILE_FIELDS = ("image", "file", "file_name")
CAPTION_FIELDS = ("caption", "captions", "text")
ON_BAD_IMAGE = ("fail", "drop")
NO_CAPTION, NO_FIELDS = "empty caption", "without picture and caption"
UNUSED = "pictures without a caption left out"
NAME_THEM = "; if this line names the columns, call them image and caption"


class Captioned(NamedTuple):
    """A picture's file, what is to be said of it, and the place where that stands."""

    path: Path
    caption: str
    where: str


@dataclass(frozen=True)
class PictureDataSettings:
    """The [data] table of pictures: folders with a captions file, or such files, and what makes a caption unfit; of the
    limits 0 is none."""

    files: tuple[str, ...]
    valid: tuple[str, ...] = ()        # held-out pictures of their own; none: the last `valid_share` of them
    valid_share: float = 0.1
    size: int = SIDE                   # pixels: pictures are brought to a square of this side
    max_words: int = 100               # between white space
    max_characters: int = 1000
    drop_duplicates: bool = True       # the same caption of the same picture
    on_bad_text: str = "fail"          # fail · replace · drop
    on_bad_image: str = "fail"         # fail · drop
    content: str = ""                  # a hash of everything, filled in by training

    def __post_init__(self) -> None:
        if not 0 < self.valid_share < 1:
            raise SettingError(f"data.valid_share {self.valid_share} is impossible: it must lie between 0 and 1")
        check_limits(self, "max_words", "max_characters")
        check_choice("data.on_bad_text", self.on_bad_text, ON_BAD_TEXT)
        check_choice("data.on_bad_image", self.on_bad_image, ON_BAD_IMAGE)


def read_captioned(
    path: str | os.PathLike[str], settings: PictureDataSettings, tally: Tally | None = None
) -> Iterator[Captioned]:
    """Every picture with a caption, in the order of the captions; no picture is opened here."""
    tally = Tally() if tally is None else tally
    tally.noun = "caption"
    source = find_captions(path)
    folder = source.path.parent
    seen: set[bytes] = set()
    used: set[Path] = set()
    read = _read_tsv if source.format == "tsv" else _read_jsonl
    for raw in read(source, settings, tally):
        caption, lost = _clean(raw, settings, tally)
        picture = folder / raw.source
        lost = lost or unfit(caption, settings) or _unusable(folder, raw, settings)
        if not lost and settings.drop_duplicates \
                and came_before(os.fsencode(picture) + b"\0" + caption.encode(), seen):
            lost = DUPLICATE
        used.add(picture)
        if lost:
            tally.drop(lost)
        else:
            tally.keep()
            yield Captioned(picture, caption, raw.where)
    if Path(path).is_dir():
        pictures = find_files(folder, lambda name: Path(name).suffix.lower() in SUFFIXES)
        tally.mended += Counter({UNUSED: len(set(pictures) - used)})
    if not tally.kept:
        raise DataError(f"there are no captions left from {source.name} ({tally.line()}): "
                        "give a file name, a tab and a caption a line")


def find_captions(path: str | os.PathLike[str]) -> TextFile:
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
    return TextFile(source.name, source.path, format, source.packed)


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


def unfit(caption: str, settings: PictureDataSettings) -> str:
    """Why a caption is not fit to learn from, or nothing."""
    if not caption or caption.isspace():
        return NO_CAPTION
    if settings.max_characters and len(caption) > settings.max_characters:
        return TOO_LONG
    return TOO_LONG if settings.max_words and len(caption.split()) > settings.max_words else ""


def _unusable(folder: Path, raw: RawPair, settings: PictureDataSettings) -> str:
    """Why there is no picture where a line says, if such lines are to be dropped; else an error."""
    try:
        locate(folder, raw.source)
        return ""
    except BadPicture as bad:
        if settings.on_bad_image == "drop":
            return bad.reason
        heading = bad.reason == MISSING and raw.where.endswith(" line 1") and not Path(raw.source).suffix
        raise BadPicture(bad.reason, f"{raw.where}: {bad}{NAME_THEM if heading else ''}, "
                         "or pass --on-bad-image drop") from None


def _clean(raw: RawPair, settings: PictureDataSettings, tally: Tally) -> tuple[str, str]:
    """The caption as text of one line; or why that cannot be."""
    if raw.lost:
        return "", raw.lost
    if encodable(raw.source, raw.where, "fail" if settings.on_bad_text == "fail" else "drop", tally) is None:
        return "", BAD_UTF8                                   # a file name is not to be guessed
    text = join_lines(raw.target.strip(), raw.where, settings.on_bad_text, tally)
    return ("", BAD_UTF8) if text is None else (text.strip(), "")


def _read_tsv(source: TextFile, settings: PictureDataSettings, tally: Tally) -> Iterator[RawPair]:
    """Columns parted by tabs: the two that the first line names, if it does, else a name and a caption."""
    rows = tab_rows(source, settings.on_bad_text, tally)
    for found in read_table(rows, settings.on_bad_text, _find_columns, _explain_columns, width=2):
        yield found._replace(source=found.source.strip())


def _find_columns(cells: list[str]) -> tuple[int, int] | None:
    names = [cell.strip().lower() for cell in cells]
    found = [next((names.index(field) for field in fields if field in names), -1)
             for fields in (FILE_FIELDS, CAPTION_FIELDS)]
    return None if -1 in found else (found[0], found[1])


def _explain_columns(where: str, cells: list[str], wanted: int, named: bool) -> str:
    if len(cells) < 2:
        return f"{where} has no tab: a line is a file name, a tab and a caption; {DROP_IT}"
    return f"{where} has {len(cells)} columns, not {wanted}: is there a tab inside a caption? {DROP_IT}"


def _read_jsonl(source: TextFile, settings: PictureDataSettings, tally: Tally) -> Iterator[RawPair]:
    """An object a line; a list of captions stands for as many lines."""
    return read_objects(source, settings.on_bad_text, tally, _of_record, NO_FIELDS)


def _of_record(record: Any, where: str) -> list[RawPair]:
    if not isinstance(record, dict):
        raise DataError(f"{where} is {type(record).__name__}, not an object: "
                        'write {"image": "...", "caption": "..."}')
    name, caption = (next((field for field in fields if field in record), None)
                     for fields in (FILE_FIELDS, CAPTION_FIELDS))
    if name is None or caption is None:
        raise DataError(f"{where} has no {FILE_FIELDS[0]!r} and {CAPTION_FIELDS[0]!r} (it has: {list_names(record)}): "
                        'write {"image": "...", "caption": "..."}')
    said = record[caption] if isinstance(record[caption], list) else [record[caption]]
    file = text_of(record[name], name, where)
    return [RawPair(where, file, text_of(each, caption, where)) for each in said] or [RawPair(where)]
