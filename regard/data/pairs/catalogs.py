"""Gettext catalogs, .po and .mo, through polib: messages beside their translations.

polib holds a catalog whole, so its size is limited, and what could make polib slow or hungry is refused before it
is asked: an endless entry, an odd encoding, a .mo whose strings overlap.
"""

from __future__ import annotations

import codecs
import re
import struct
import tempfile
from collections.abc import Iterator
from typing import Any

from regard.data.pairs.pair_readers import LAYOUT, PairSettings, likeness, marker, name_them, unmarked
from regard.data.reading.lines import HEAD, check_head
from regard.data.reading.readers import TextFile, open_source
from regard.data.reading.tally import Tally
from regard.data.reading.two_fields import HEADER, RawPair
from regard.errors import DataError

LARGEST = 2**24                          # bytes of a catalog
LONGEST_ENTRY = 2**17                    # bytes of an entry, its comments included
MOST_ENTRIES, MOST_LINES = 100_000, 1_000_000        # polib takes a second for so many; large programs have a tenth
MOST_PACKED = 100                        # times its packed size is the most that a catalog has: text has 3 to 10
FUZZY, OBSOLETE, PLURALS = "fuzzy", "obsolete", "with three or more plural forms"
CHARSET = re.compile(rb"Content-Type:[^\n]{0,80}charset=([\w.:-]{1,40})")
ENCODINGS = re.compile(
    r"utf-8|ascii|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|gb\w+|big5\w*|euc_\w+|shift_jis\w*|tis-620")
LITTLE, BIG = b"\xde\x12\x04\x95", b"\x95\x04\x12\xde"


def read_po(source: TextFile, options: PairSettings, tally: Tally) -> Iterator[RawPair]:
    """Every message of a .po file."""
    import polib

    with tempfile.NamedTemporaryFile(prefix="regard-", suffix=".po") as copy:       # polib wants a file by name
        encoding = _copy(source, options, copy)
        try:
            catalog = polib.pofile(copy.name, encoding=encoding)
        except UnicodeDecodeError as error:
            raise DataError(f"{source.name} has bytes that are not {encoding} ({error.reason}): mend it, name its "
                            "encoding in its header, or pass --on-bad-text replace or drop") from None
        except (OSError, ValueError, IndexError, KeyError) as error:
            place = re.search(r"\(line (\d+)\)", str(error))
            raise DataError(f"{source.name}{f' line {place[1]}' if place else ''} is not a .po file as gettext writes "
                            "it: check it with msgfmt -c") from None
    yield from _entries(catalog, source, options, tally)


def _copy(source: TextFile, options: PairSettings, copy: Any) -> str:
    """Writes the catalog, unpacked and with its bytes mended, and gives its encoding."""
    total = entry = entries = 0
    with open_source(source) as stream:
        head = stream.read(HEAD)
        encoding = _encoding(head, source)
        mark = marker(options.on_bad_text) if encoding == "utf-8" else bytes
        stream.seek(len(head) - len(check_head(head, source.name)))
        for number, raw in enumerate(iter(lambda: stream.readline(LONGEST_ENTRY + 1), b""), 1):
            total += len(raw)
            begins = b"msgid " in raw[:10]
            entries, entry = entries + begins, len(raw) + (0 if begins else entry)
            if entry > LONGEST_ENTRY:
                raise DataError(f"{source.name} line {number} is in an entry of more than {LONGEST_ENTRY // 2**10} KB: "
                                "take it out, or give the pairs as .tsv or .jsonl")
            _check_size(total, source)
            _check_count(entries, number, source)
            copy.write(mark(raw))
    copy.flush()
    return encoding


def _check_size(size: int, source: TextFile) -> None:
    if size > LARGEST:
        raise DataError(f"{source.name} is larger than {LARGEST // 2**20} MB: a catalog is held whole; "
                        "give so many pairs as .tsv, .jsonl or .tmx")
    if source.packed and size > MOST_PACKED * max(2**10, source.path.stat().st_size):
        raise DataError(f"{source.name} unpacks to more than {MOST_PACKED} times its size, as no catalog does: unpack "
                        "it yourself if it is one")


def _check_count(entries: int, lines: int, source: TextFile) -> None:
    if entries > MOST_ENTRIES or lines > MOST_LINES:
        raise DataError(f"{source.name} has more than {MOST_ENTRIES:,} messages, or {MOST_LINES:,} lines: a catalog is "
                        "held whole; give so many pairs as .tsv, .jsonl or .tmx")


def _encoding(head: bytes, source: TextFile) -> str:
    named = CHARSET.search(head)
    if named is None or named[1] == b"CHARSET":              # xgettext's template says CHARSET
        return "utf-8"
    try:
        name = codecs.lookup(named[1].decode("ascii", "replace")).name
    except LookupError:
        name = ""
    if not ENCODINGS.fullmatch(name):
        raise DataError(f"{source.name} says its encoding is {named[1]!r}, which is not read: "
                        "convert it with msgconv -t UTF-8")
    return name


def read_mo(source: TextFile, options: PairSettings, tally: Tally) -> Iterator[RawPair]:
    """Every message of a compiled .mo file."""
    import polib

    data = b""
    with open_source(source) as stream:
        while piece := stream.read(2**18):
            data += piece
            _check_size(len(data), source)
    _check_mo(data, source)
    try:
        catalog = polib.mofile(data, encoding=_encoding(data, source))
    except (OSError, ValueError, IndexError, KeyError, struct.error, UnicodeError) as error:
        raise DataError(f"{source.name} is a damaged .mo file ({' '.join(str(error)[:80].split())}): "
                        "compile it again with msgfmt") from None
    yield from _entries(catalog, source, options, tally)


def _check_mo(data: bytes, source: TextFile) -> None:
    """Refuses strings that overlap: a small file could otherwise ask for any amount of memory."""
    if data[:4] not in (LITTLE, BIG):
        raise DataError(f"{source.name} is not a .mo file (its first bytes are 0x{data[:4].hex()}): "
                        "compile one with msgfmt, or give the .po")
    order = "<" if data[:4] == LITTLE else ">"
    try:
        count, *tables = struct.unpack_from(f"{order}III", data, 8)
        sizes = sum(size for table in tables
                    for size in struct.unpack_from(f"{order}{2 * count}I", data, table)[::2])
    except (struct.error, MemoryError, OverflowError):
        sizes = len(data) + 1
    if sizes > len(data):
        raise DataError(f"{source.name} is a damaged .mo file (its table of strings is wrong): "
                        "compile it again with msgfmt")
    _check_count(count, 0, source)


def _entries(catalog: Any, source: TextFile, options: PairSettings, tally: Tally) -> Iterator[RawPair]:
    backwards = _backwards(catalog.metadata.get("Language", ""), source, options)
    if catalog.metadata:
        yield RawPair(source.name, lost=HEADER)
    for entry in catalog:
        where = f"{source.name} line {entry.linenum}" if source.format == "po" else source.name
        for message, translation, lost in _pairs(entry, options):
            if lost:
                yield RawPair(where, lost=lost)
                continue
            sides = message.strip(LAYOUT), translation.strip(LAYOUT)
            yield unmarked(RawPair(where, *(sides[::-1] if backwards else sides)), options, tally)


def _pairs(entry: Any, options: PairSettings) -> Iterator[tuple[str, str, str]]:
    """The message, its translation, and why it is lost; a plural with one or two forms gives a pair for each."""
    lost = OBSOLETE if entry.obsolete else FUZZY if "fuzzy" in entry.flags and not options.fuzzy else ""
    if not entry.msgid_plural:
        yield entry.msgid, entry.msgstr, lost
        return
    forms = [text for _, text in sorted(entry.msgstr_plural.items())]
    if len(forms) > 2:               # which is whose depends on the language: rather none than a wrong one
        yield entry.msgid, "", lost or PLURALS
        return
    messages = [entry.msgid, entry.msgid_plural]
    for message, form in zip(messages[-max(len(forms), 1):], forms or [""], strict=True):
        yield message, form, lost


def _backwards(language: str, source: TextFile, options: PairSettings) -> bool:
    """True if the catalog translates into our source language: its header names the language."""
    if options.languages is None or not language:
        return False
    into_source, into_target = (likeness(wanted, language) for wanted in options.languages)
    if not (into_source or into_target):
        raise DataError(f"{source.name} is a translation into {language[:40]!r}, which is neither "
                        f"{options.languages[0]!r} nor {options.languages[1]!r}: {name_them(options)}")
    return into_source > into_target
