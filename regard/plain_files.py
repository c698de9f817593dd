"""Plain files: they alone are read, and no more of them than such a file has.

A run folder, a cache or a model of another program may come from anywhere. A link in it to /dev/zero would be read for
ever and a pipe would wait for ever, so that only plain files are opened, and no more is read than `most` bytes.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO

SMALL = 2**20                  # bytes of settings, of a manifest, of a few figures
LARGE = 2**29                  # bytes of a tokenizer, or of a list of labels
PIECE = 2**20

FLAGS = (os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
         | getattr(os, "O_BINARY", 0))


def open_plain(path: Path | str) -> BinaryIO:
    """Return the file, opened for reading; an OSError where it is no plain file. Nothing is waited for."""
    check_plain(os.stat(path), path)                         # before it is opened: that alone may start a device
    handle = os.open(path, FLAGS)
    try:
        check_plain(os.fstat(handle), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def check_plain(status: os.stat_result, path: Path | str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, and no plain file", str(path))


def read_plain(path: Path | str, most: int = sys.maxsize) -> bytes:
    """Return the bytes of a plain file; an OSError where there are more than `most`."""
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:                                          # asked first: so much need not fit into memory
            raise too_long(path, most)
        data = file.read(size + 1) or b""                        # None: it would wait
        if len(data) > size and len(data) <= most:               # it has grown; what the system makes up says 0
            data += file.read(min(PIECE, most - len(data)) + 1) or b""
    if len(data) > most:
        raise too_long(path, most)
    return data


def too_long(path: Path | str, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {most:,} bytes, as no such file has", str(path))


def check_length(path: Path | str) -> None:
    """Refuse a file that is longer than what it can hold, before all of it is read: a file may have a length without
    having the bytes. Tensors say in their header how many bytes they are; no other file of ours is large."""
    with open_plain(path) as file:
        length = os.fstat(file.fileno()).st_size
        if length <= LARGE:
            return
        if not str(path).endswith(".safetensors"):
            raise too_long(path, LARGE)
        size = int.from_bytes(file.read(8), "little")
        header: Any = parse_json(file.read(size)) if size <= LARGE else None
        try:
            ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
        except (AttributeError, KeyError, TypeError, IndexError):
            ends = []
        if length != 8 + size + max((end for end in ends if isinstance(end, int)), default=0):
            raise OSError(errno.EFBIG, "it is not as long as its header says", str(path))


def parse_json(raw: bytes | str) -> Any:
    """Return the value; a ValueError for everything that is no JSON, or is nested without end."""
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def load_json(path: Path | str, most: int = SMALL) -> Any:
    """Return the value in a JSON file: an OSError where it cannot be read, a ValueError where it is no JSON."""
    return parse_json(read_plain(path, most))
