"""Readers: files, folders and stdin into documents, streamed in pieces of bounded size.

A document comes as one or more pieces; the last has `ends`. What a document is in a plain text file is a
setting: the whole file, each line, or each block of lines between empty ones. A JSONL line or a row of
Parquet or Arrow is always one document. A folder is searched, unless `datasets` saved it.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from regard.data.reading.lines import BLOCK, HEAD, LONGEST, Chunk, Cleaner, check_head, mend
from regard.data.reading.remote import find_files_at, is_address, open_address
from regard.data.reading.saved_datasets import find_dataset_files, is_saved_dataset, refuse_splits
from regard.data.reading.tally import EMPTY, Tally
from regard.data.reading.unpacking import unpacked
from regard.errors import DataError, SettingError, did_you_mean

DOCUMENTS = ("file", "line", "blank-line")
ON_BAD_TEXT = ("fail", "replace", "drop")
TEXT_SUFFIXES = (".txt", ".md", ".text")
RECORD_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}
TABLES = ("parquet", "arrow")


class TextPiece(NamedTuple):
    """Some text of a document; `ends` marks the document's last piece."""

    text: str
    ends: bool


@dataclass(frozen=True)
class ReadSettings:
    """Options for reading text: what a document is, what to do with bad bytes, which field of a record is the text."""

    documents: str = "auto"
    on_bad_text: str = "fail"
    field: str = "text"

    def check(self) -> None:
        check_choice("data.documents", self.documents, DOCUMENTS)
        check_choice("data.on_bad_text", self.on_bad_text, ON_BAD_TEXT)


def check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise SettingError(f"unknown {name} {value!r}{did_you_mean(value, known)}")


@dataclass(frozen=True)
class TextFile:
    """One file to read: its name for messages, where it is, its format, and whether it is gzipped; or a part of one,
    which begins where a line does and, but for the last, ends where one does."""

    name: str
    path: Path
    format: str = "text"                                       # text · jsonl · parquet · arrow
    packed: bool = False
    spool: Any = field(default=None, repr=False, compare=False)      # keeps a temporary file alive
    start: int = 0                                             # of a part: its first byte ...
    stop: int | None = None                                    # ... the one behind its last; None: the file's end
    line: int = 1                                              # ... and the number of its first line, for messages
    address: str = ""                                          # where it lies, if not on this machine's disks ...
    size: int = 0                                              # ... and how many bytes it has there


def find_sources(files: Sequence[str | os.PathLike[str]]) -> list[TextFile]:
    """Every file meant by these names: files as they are, folders searched, `-` for stdin."""
    if not files:
        raise DataError("no text was given: name one or more files or folders, or - for stdin")
    sources: list[TextFile] = []
    for name in files:
        path = Path(name)
        if str(name) == "-":
            sources.append(_spool("<stdin>", sys.stdin.buffer))
        elif is_address(name):
            sources.extend(_source(Path(address), address, size)
                           for address, size in find_files_at(str(name), _text_like))
        elif path.is_dir():
            sources.extend(find_in_folder(path))
        elif path.is_file():
            sources.append(_source(path))
        elif path.exists():                          # a pipe, such as the shell's <(command)
            with open_source(TextFile(str(path), path)) as stream:
                sources.append(_spool(str(path), stream))
        else:
            raise DataError(f"{name} does not exist: check the name (the working folder is {Path.cwd()})")
    return sources


def each_address(names: Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """The names, with each file that an address means in its place."""
    return [each for name in names for each in (
        [address for address, _ in find_files_at(str(name), _text_like)] if is_address(name) else [name])]


def find_in_folder(folder: Path) -> list[TextFile]:
    """The files of a dataset that `datasets` saved, or every text that lies in a folder."""
    refuse_splits(folder)
    return [_source(path) for path in find_dataset_files(folder)] if is_saved_dataset(folder) else _search(folder)


def find_files(folder: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Every file of a folder and of those below whose name is wanted, by its name; hidden ones are passed over."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent) / name for name in sorted(names) if not name.startswith(".") and wanted(name))


def _search(folder: Path) -> list[TextFile]:
    paths = list(find_files(folder, _text_like))
    if not paths:
        kinds = " ".join([*TEXT_SUFFIXES, *RECORD_SUFFIXES])
        raise DataError(f"{folder} has no text in it: a folder is searched for {kinds} and .gz of these; "
                        "name other files one by one")
    return [_source(path) for path in paths]


def _text_like(name: str) -> bool:
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    return suffix in TEXT_SUFFIXES or suffix in RECORD_SUFFIXES


def _source(path: Path, address: str = "", size: int = 0) -> TextFile:
    packed = path.suffix.lower() == ".gz"
    inner = path.with_suffix("") if packed else path
    return TextFile(address or str(path), path, RECORD_SUFFIXES.get(inner.suffix.lower(), "text"), packed,
                    address=address, size=size)


def _spool(name: str, stream: BinaryIO) -> TextFile:
    """Return a temporary file of a stream that can be read only once."""
    spool = tempfile.NamedTemporaryFile(prefix="regard-")            # noqa: SIM115  lives as long as the TextFile
    shutil.copyfileobj(stream, spool)
    spool.flush()
    return TextFile(name, Path(spool.name), spool=spool)


@contextmanager
def open_source(source: TextFile) -> Iterator[BinaryIO]:
    """The bytes of a source, unpacked; whatever goes wrong with the file is one clear line."""
    try:
        with _open_bytes(source) as raw:
            yield unpacked(raw, source.name) if source.packed else _part_of(raw, source)
    except PermissionError:
        raise DataError(f"no permission to read {source.name}: change it with chmod, or copy the file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{source.name} is not a whole gzip file ({error}): fetch it again, or unpack it") from None
    except OSError as error:
        raise DataError(f"could not read {source.name}: {error.strerror or error}") from None


def _open_bytes(source: TextFile) -> AbstractContextManager[BinaryIO]:
    # A Parquet file is read from its end, here and there: reading ahead would be for nothing.
    return open_address(source.address, source.format not in TABLES) if source.address else open(source.path, "rb")


class _Part(io.RawIOBase):
    """The next bytes of a stream, so many and no more."""

    def __init__(self, stream: BinaryIO, size: int):
        self.stream, self.first, self.size, self.left = stream, stream.tell(), size, size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.size - self.left, io.SEEK_END: self.size}[whence]
        self.stream.seek(self.first + place)
        self.left = max(0, self.size - place)
        return place

    def readinto(self, room: Any) -> int:
        data = self.stream.read(min(len(room), self.left))
        room[:len(data)] = data
        self.left -= len(data)
        return len(data)


def _part_of(raw: BinaryIO, source: TextFile) -> BinaryIO:
    if source.start:
        raw.seek(source.start)
    if source.stop is None:
        return raw
    return cast(BinaryIO, io.BufferedReader(_Part(raw, source.stop - source.start), BLOCK))


def read(sources: Sequence[TextFile], settings: ReadSettings, tally: Tally | None = None) -> Iterator[TextPiece]:
    """Every document of every source, in order, in pieces; what is kept and dropped goes into the tally."""
    settings.check()
    tally = Tally() if tally is None else tally
    if all(source.format in TABLES for source in sources):
        tally.noun = "record"
    for source in sources:
        yield from read_file(source, settings, tally)
    refuse_empty(sources, tally)


def refuse_empty(sources: Sequence[TextFile], tally: Tally) -> None:
    if not tally.documents:
        raise DataError(f"there is no text in {name_first(sources)} ({tally.line()}): give a file with some text in it")


def read_file(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    """Every document of a file, or of a part of one, in pieces."""
    for piece in (_read_text if source.format == "text" else _read_records)(source, settings, tally):
        tally.documents += piece.ends
        yield piece


def name_first(sources: Sequence[TextFile]) -> str:
    """The names of the first three files, for a message."""
    return ", ".join(source.name for source in sources[:3]) + (", ..." if len(sources) > 3 else "")


def _read_records(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    from regard.data.reading.records import read_records

    return read_records(source, settings, tally)


def _read_text(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    split = {"file": _by_file, "line": _by_line, "blank-line": _by_blank_line}[settings.documents]
    return split(source, settings, tally)


def clean_chunks(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[Chunk]:
    """The clean text of a file, or of a part of one; only the end of the file is `last`."""
    with open_source(source) as stream:
        head = b"" if source.start else check_head(stream.read(HEAD), source.name)
        for chunk in Cleaner(source.name, settings.on_bad_text, tally, source.line).chunks(stream, head):
            yield chunk if source.stop is None else chunk._replace(last=False)


def _by_file(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    some = False
    for text, lines, last in clean_chunks(source, settings, tally):
        tally.keep(lines)
        some = some or bool(text) or (last and _has_text_before(source, settings))
        if some and (text or last):
            yield TextPiece(text, last)


def _has_text_before(part: TextFile, settings: ReadSettings) -> bool:
    """True if any text was kept of what stands in the file before this part."""
    before = replace(part, start=0, stop=part.start, line=1)
    return part.start > 0 and any(text for text, _, _ in clean_chunks(before, settings, Tally()))


def _by_line(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    return (piece for piece in lines_of(clean_chunks(source, settings, tally), tally) if piece is not None)


def _by_blank_line(source: TextFile, settings: ReadSettings, tally: Tally) -> Iterator[TextPiece]:
    return join_paragraphs(lines_of(clean_chunks(source, settings, tally), tally))


def join_paragraphs(lines: Iterator[TextPiece | None]) -> Iterator[TextPiece]:
    """Lines put together up to each empty one, which is None."""
    held: list[str] = []                             # text of the current document not sent yet
    size = 0
    inside = False                                   # part of this document was sent
    for line in chain(lines, [None]):
        if line is None:
            if held or inside:
                yield TextPiece("".join(held).removesuffix("\n"), True)
            held, size, inside = [], 0, False
            continue
        if held and size + len(line.text) >= BLOCK:
            yield TextPiece("".join(held), False)
            held, size, inside = [], 0, True
        held.append(line.text + "\n" * line.ends)
        size += len(held[-1])


def lines_of(chunks: Iterator[Chunk], tally: Tally) -> Iterator[TextPiece | None]:
    """Each line without its newline, a giant one in several pieces; None for an empty one."""
    inside = False                                   # in a giant line
    for text, _, last in chunks:
        *lines, rest = text.split("\n")
        if last and (rest or (inside and not lines)):
            lines.append(rest)                       # the last line may lack its newline
            rest = ""
        for line in lines:
            if inside or not _blank(line):
                tally.keep()
                yield TextPiece(line, True)
            else:
                tally.drop(EMPTY)
                yield None
            inside = False
        if rest:
            inside = True
            yield TextPiece(rest, False)


def _blank(line: str) -> bool:
    return not line or line.isspace()


# ------------------------------------------------------------------------------------------------ line by line


def every_line(name: str, on_bad_text: str = "fail") -> Iterator[str]:
    """The lines of a file, a .gz of one, or of `-`, stdin, as they arrive, blank ones too: for commands that answer one
    line with one line. Nothing is dropped: a line that is no text is an error, or is mended where `on_bad_text` is
    `replace`."""
    if name == "-":
        yield from _stream_lines(sys.stdin.buffer, "<stdin>", on_bad_text)
        return
    (source, *others) = find_sources([name])
    if others or source.format != "text":
        raise DataError(f"{name} is not a file of lines: give one text file, a .gz of one, or - for stdin")
    yield from lines_in(source, on_bad_text)


def lines_in(source: TextFile, on_bad_text: str = "fail") -> Iterator[str]:
    """The lines of a plain file, as `every_line` gives them."""
    with open_source(source) as stream:
        yield from _stream_lines(stream, source.name, on_bad_text)


def _stream_lines(stream: BinaryIO, name: str, on_bad_text: str) -> Iterator[str]:
    number, tally = 0, Tally()
    while raw := stream.readline(LONGEST + 1):
        number += 1
        if len(raw) > LONGEST and not raw.endswith(b"\n"):
            raise DataError(f"{name} line {number} is longer than {LONGEST:,} bytes: break it into lines")
        if number == 1:
            raw = check_head(raw[:HEAD], name) + raw[HEAD:]
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            if on_bad_text != "replace":
                raise DataError(
                    f"{name} line {number}, byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8: mend it, "
                    "or pass --on-bad-text replace (bad bytes become U+FFFD)") from None
            text = raw.decode(errors="replace")
        yield mend(text, tally).removesuffix("\n")
