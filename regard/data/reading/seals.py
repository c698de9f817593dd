"""Seals: an entry of the cache carries the SHA-256 of all it holds, and is used only while they match.

A folder holds `SHA256SUMS`, which `sha256sum -c` reads, too. It is compared, as a whole, with what the files give now:
a changed bit is seen in any file, in a name and in the list itself; so is a file too few or too many. A small value
is one file, whose first line is the SHA-256 of the rest. The check comes before anything is parsed.

A seal guards against damage, not against a forger. Hashing takes about 0.6 seconds a gigabyte where the CPU has
instructions for it, once, when an entry is opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from regard import storage
from regard.errors import DataError

SUMS = "SHA256SUMS"
CURE = "remove it, and it is made again"

Say = Callable[[str], None]
Opened = TypeVar("Opened")


def tell(text: str) -> None:
    print(f"({text})", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------ folders


def sums(folder: Path) -> str:
    """A line for each file but the list itself: its SHA-256 and its name."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.name == SUMS:
            continue
        if not path.is_file():
            raise DataError(f"{path.name} is not a file")
        with open(path, "rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def check_folder(folder: Path) -> Path:
    """The folder, if it is what was sealed, bit by bit; else a DataError."""
    try:
        kept = (folder / SUMS).read_bytes()
        found = sums(folder).encode(errors="surrogateescape")
    except (OSError, DataError) as error:
        raise DataError(f"{folder} is damaged ({_reason(error)}): {CURE}") from None
    if not kept or kept != found:
        odd = set(found.splitlines()) - set(kept.splitlines())
        names = sorted(line[66:].decode(errors="replace") for line in odd) or [SUMS]
        raise DataError(f"{folder} is damaged ({names[0]} does not match): {CURE}")
    return folder


def opens(open_entry: Callable[[Path], object], path: Path) -> bool:
    """True if `open_entry` opens the entry."""
    try:
        open_entry(path)
        return True
    except DataError:
        return False


def write_folder(path: Path, fill: Callable[[Path], None], open_entry: Callable[[Path], Opened]) -> Opened:
    """A sealed folder at `path`, which appears whole or not at all; `fill` writes its files, synced."""
    storage.make_folder(path.parent)
    part = storage.own_part(path)
    shutil.rmtree(part, ignore_errors=True)                   # of a process that was killed, and had our number
    try:
        storage.make_folder(part)
        fill(part)
        storage.write_part(part / SUMS, sums(part))
        storage.settle_folder(part, path, lambda there: opens(open_entry, there))
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return open_entry(path)


def open_or_make(
    path: Path, open_entry: Callable[[Path], Opened], make: Callable[[Path], Opened], say: Say = tell
) -> tuple[Opened, bool]:
    """Return the entry at `path`, and whether it was there already. A damaged one is thrown away and made again."""
    if os.path.lexists(path):
        try:
            return open_entry(path), True
        except DataError as damage:
            say(str(damage).replace(CURE, "making it again"))
            storage.discard(path, lambda there: opens(open_entry, there))
    return make(path), False


# ------------------------------------------------------------------------------------------------ values


def load_value(path: Path) -> Any:
    """The value that `write_value` put there; a DataError unless it is that, bit by bit."""
    return json.loads(load_bytes(path))


def load_bytes(path: Path) -> bytes:
    """The bytes that `write_bytes` put there; a DataError unless it is them."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} is damaged ({_reason(error)}): {CURE}") from None
    head, _, rest = data.partition(b"\n")
    if head != storage.digest(rest).encode():
        raise DataError(f"{path} is damaged (it does not match its SHA-256): {CURE}")
    return rest


def write_value(path: Path, value: Any) -> Any:
    write_bytes(path, (json.dumps(value, ensure_ascii=False) + "\n").encode())
    return value


def write_bytes(path: Path, data: bytes) -> None:
    storage.make_folder(path.parent)
    storage.write_file(path, storage.digest(data).encode() + b"\n" + data)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{Path(str(error.filename)).name} is missing"
    return str(getattr(error, "strerror", None) or error)
