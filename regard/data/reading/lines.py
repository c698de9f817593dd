"""From bytes to clean lines: blocks of bounded size, decoded, with every line accounted for.

A line ends at `\\n` and nowhere else. A block ends after a newline; only a line longer than a block is cut
inside: before a space, else at the limit. So no file, and no single line, is ever held whole in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from regard.data.reading.tally import BAD_UTF8, Tally
from regard.errors import DataError

BLOCK = 2**20             # bytes in a block, and about the most characters in a piece
LONGEST = 2**20           # bytes of a line that is one sentence, characters of a segment
HEAD = 2**16              # bytes looked at to tell text from something else
UTF8_BOM = b"\xef\xbb\xbf"
MUCH_UNDECODABLE, MUCH_NUL = 0.02, 0.25      # shares of the head from which a file with NULs is called binary

CURE = "mend it, or pass --on-bad-text replace (bad bytes become U+FFFD) or drop (the line is left out)"


class Chunk(NamedTuple):
    """Clean text: the rest of a block. `lines` of them end here; `last` ends the file."""

    text: str
    lines: int
    last: bool


def check_head(head: bytes, name: str) -> bytes:
    """The first bytes without a byte order mark; refuses what is not UTF-8 text."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{name} is UTF-16 (its first bytes are 0x{head[0]:02x} 0x{head[1]:02x}), not UTF-8: "
                        f"convert it with iconv -f UTF-16 -t UTF-8")
    nul = head.find(b"\0")
    if nul >= 0:
        undecodable = head.decode("utf-8", errors="replace").count("\ufffd")
        if undecodable > MUCH_UNDECODABLE * len(head) or head.count(b"\0") > MUCH_NUL * len(head):
            raise DataError(f"{name} looks binary, not text (byte 0x00 at offset {nul}): give a UTF-8 text file, "
                            ".jsonl, .parquet, or a .gz of one")
    return head.removeprefix(UTF8_BOM)


def blocks(stream: BinaryIO, head: bytes) -> Iterator[tuple[bytes, bool]]:
    """The bytes in blocks cut where it hurts least, and whether each is the last."""
    rest, ready = head, b""
    while True:
        data = stream.read(max(BLOCK - len(rest), 1))
        rest += data
        if len(rest) < BLOCK and data:
            continue                      # pipes and gzip may give less than was asked
        if ready:
            yield ready, not rest
        if not rest:
            return
        cut = find_cut(rest) if data else len(rest)
        ready, rest = rest[:cut], rest[cut:]


def find_cut(data: bytes) -> int:
    """The offset at which a block of these bytes ends."""
    after_newline = data.rfind(b"\n") + 1
    if after_newline:
        return after_newline
    before_space = data.rfind(b" ")
    return before_space if before_space > 0 else _character_boundary(data)


def _character_boundary(data: bytes) -> int:
    """The last offset that splits neither a character nor a CRLF."""
    end = len(data)
    for back in range(1, 4):
        byte = data[end - back]
        if byte >= 0xC0:                                      # a lead byte: are all its followers here?
            needed = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            end -= back if needed > back else 0
            break
        if byte < 0x80:
            break
    return end - 1 if data[end - 1] == 0x0D else end


class Cleaner:
    """Decodes the blocks of one file, mends or refuses what is bad, and counts the lines."""

    def __init__(self, name: str, on_bad_text: str, tally: Tally, line: int = 1):
        self.name, self.on_bad_text, self.tally = name, on_bad_text, tally
        self.line = line           # the number of the line in which the next block begins
        self.column = 0            # how many bytes of that line were in earlier blocks

    def chunks(self, stream: BinaryIO, head: bytes) -> Iterator[Chunk]:
        for block, last in blocks(stream, head):
            lines = block.count(b"\n") + (last and not block.endswith(b"\n"))
            dropped = 0
            try:
                text = block.decode()
            except UnicodeDecodeError as error:
                text, dropped = self._bad(block, last, error)
            if dropped:
                self.tally.drop(BAD_UTF8, dropped)
            self._advance(block, lines)
            yield Chunk(mend(text, self.tally), lines - dropped, last)

    def _advance(self, block: bytes, lines: int) -> None:
        self.line += lines
        self.column = len(block) - (block.rfind(b"\n") + 1) + (0 if b"\n" in block else self.column)

    def _bad(self, block: bytes, last: bool, error: UnicodeDecodeError) -> tuple[str, int]:
        """The text of a block with bad bytes, and how many whole lines were dropped from it."""
        if self.on_bad_text == "fail":
            raise DataError(self._complaint(block, error.start))
        texts, dropped = [], 0
        lines = block.split(b"\n")
        for index, raw in enumerate(lines):
            ended = index < len(lines) - 1
            try:
                texts.append(raw.decode() + "\n" * ended)
                continue
            except UnicodeDecodeError:
                pass
            if self.on_bad_text == "replace":
                self.tally.mended["with bad UTF-8 replaced"] += 1
                texts.append(raw.decode(errors="replace") + "\n" * ended)
            elif (index == 0 and self.column) or not (ended or last):
                # Part of this line has gone out already, or is still to come: only this part can be left out.
                self.tally.mended["parts of giant lines with bad UTF-8 left out"] += 1
                texts.append("\ufffd" + "\n" * ended)
            else:
                dropped += 1
        return "".join(texts), dropped

    def _complaint(self, block: bytes, offset: int) -> str:
        start = block.rfind(b"\n", 0, offset) + 1
        line = self.line + block.count(b"\n", 0, offset)
        column = offset - start + (self.column if start == 0 else 0)
        return f"{self.name} line {line}, byte {column + 1} (0x{block[offset]:02x}) is not UTF-8: {CURE}"


def mend(text: str, tally: Tally) -> str:
    """CRLF becomes LF; NULs go, and are counted."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    nuls = text.count("\0")
    if nuls:
        tally.mended["NUL characters removed"] += nuls
        text = text.replace("\0", "")
    return text
