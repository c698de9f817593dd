"""Every line of a file or of stdin as it comes, blank ones too: for what answers one line with one line.

A line ends at `\\n` and nowhere else. Nothing is dropped: a line that is no text is an error, or is mended where
`on_bad_text` is `replace`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import BinaryIO

from regard.data.reading.lines import HEAD, check_head, mend
from regard.data.reading.readers import find_sources, open_source
from regard.data.reading.tally import Tally
from regard.data.reading.two_fields import LONGEST
from regard.errors import DataError


def every_line(name: str, on_bad_text: str = "fail") -> Iterator[str]:
    """The lines of a file, a .gz of one, or of `-`, stdin, as they arrive."""
    if name == "-":
        yield from _lines(sys.stdin.buffer, "<stdin>", on_bad_text)
        return
    (source, *others) = find_sources([name])
    if others or source.format != "text":
        raise DataError(f"{name} is not a file of lines: give one text file, a .gz of one, or - for stdin")
    with open_source(source) as stream:
        yield from _lines(stream, source.name, on_bad_text)


def _lines(stream: BinaryIO, name: str, on_bad_text: str) -> Iterator[str]:
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
