"""Torch's compiler keeps its code in the cache, in a folder that only this user can write, checked before it is used.

Torch's own choice is a name in /tmp, which anybody can take first. And torch believes what it finds there: half a
library, left by a process that was killed, ends every later one. Here each process writes a list of SHA-256 at its end.
The next one removes the files that do not match, and torch compiles them again. A file that is not on the list was left
by a process that was killed, or one that still runs is making it: a lock on the folder tells which.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from regard.errors import StorageError
from regard.kernels.cpu import private

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
SUMS = "SHA256SUMS"


def keep() -> None:
    """Name the folder to torch's compiler, unless the environment names one already."""
    if os.name != "posix" or _named():
        return
    folder = private.folder_of("compiled")
    try:
        with private.open_folder(folder) as handle:
            lock = os.dup(handle)                            # held until the process ends
        removed = verify(folder, lock)
        if removed:
            private.tell(f"compiled code in {folder} was damaged or half made: {removed} files are compiled again")
        atexit.register(_finish, folder, lock, os.getpid())
    except (OSError, StorageError) as reason:
        private.tell(f"compiled code is kept for this process alone: {reason}; {private.CURE}")
        folder = Path(tempfile.mkdtemp(prefix="regard-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = str(folder.absolute())


def _named() -> bool:
    """True if somebody chose a folder; torch itself sets the variable, too, once its compiler is imported."""
    named = Path(os.environ.get(VARIABLE, ""))
    by_torch = named.parent == Path(tempfile.gettempdir()) and named.name.startswith("torchinductor_")
    return bool(named.name) and not by_torch


def verify(folder: Path, lock: int) -> int:
    """Remove the files that are not what the list says, and, where nobody else is at work, those it does not name."""
    alone = _alone(lock)
    listed = _listed(lock)
    removed = 0
    for name, path in _files(folder):
        with suppress(FileNotFoundError):                    # another process may be removing it, too
            if (name in listed or alone) and listed.get(name) != _digest(path):
                path.unlink()
                removed += 1
    return removed


def record(folder: Path, lock: int) -> None:
    """Write the list of what is there now."""
    lines = []
    for name, path in _files(folder):
        with suppress(FileNotFoundError):
            lines.append(f"{_digest(path)}  {name}\n")
    private.write_file(lock, SUMS, "".join(lines).encode(errors="surrogateescape"))


def _finish(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:                                 # not a fork of it
        with suppress(OSError):                              # a full disk: it is compiled again next time
            record(folder, lock)


def _alone(lock: int) -> bool:
    """True if no other process uses the folder; from now on this one does."""
    import fcntl

    alone = True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        alone = False
    with suppress(OSError):                                  # a file system without locks
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return alone


def _listed(lock: int) -> dict[str, str]:
    try:
        lines = (private.load_file(lock, SUMS) or b"").decode(errors="surrogateescape").split("\n")
    except private.NotPrivate:
        return {}
    return {line[66:]: line[:64] for line in lines if line}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files that the compiler wrote, but for its locks, which are empty."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".lock" and path != folder / SUMS:
            yield str(path.relative_to(folder)), path


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
