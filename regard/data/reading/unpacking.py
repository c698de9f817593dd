"""Gzip, unpacked as it is read and only as far as text is packed: a small file may else unpack to a thousand times its
size, for as long as somebody reads."""

from __future__ import annotations

import gzip
import io
from typing import Any, BinaryIO, cast

from regard.errors import DataError

MOST = 200                     # times its packed size is the most that a text has: prose has 3 to 10, logs 20 to 50
FROM = 2**21                   # bytes from which on it is asked: small ones may repeat themselves
HEADER = 2**16                 # bytes of a name or a comment in a header; gzip reads them one by one
SIP = 2**13                    # packed bytes that gzip is given at once: it may not have unpacked them yet


class _Sips(io.RawIOBase):
    """A stream of which no more than a sip is read at once, and no header without an end."""

    def __init__(self, stream: BinaryIO):
        self.stream = stream
        self.one_by_one = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.stream.seekable()

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self.stream.seek(place, whence)

    def read(self, size: int = -1) -> bytes:
        self.one_by_one = self.one_by_one + 1 if size == 1 else 0
        if self.one_by_one > HEADER:
            raise gzip.BadGzipFile("its header has no end")
        return self.stream.read(min(size, SIP) if size >= 0 else SIP)


class _Bounded(io.RawIOBase):
    """The content of a packed stream, refused when it is too much for its size."""

    def __init__(self, packed: BinaryIO, name: str):
        self.packed, self.name = packed, name
        self.inner = gzip.GzipFile(fileobj=cast(BinaryIO, _Sips(packed)))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self.inner.seek(place, whence)

    def tell(self) -> int:
        return self.inner.tell()

    def readinto(self, room: Any) -> int:
        data = self.inner.read1(len(room))
        room[:len(data)] = data
        place = self.inner.tell()
        if place > FROM and place > MOST * self.packed.tell():
            raise DataError(f"{self.name} unpacks to more than {MOST} times its size, as no text does: unpack it "
                            "yourself if it is one")
        return len(data)


def unpacked(packed: BinaryIO, name: str) -> BinaryIO:
    """Return the unpacked bytes of a gzip stream; what unpacks to far too much is a DataError on the way."""
    return cast(BinaryIO, io.BufferedReader(_Bounded(packed, name), 2**16))
