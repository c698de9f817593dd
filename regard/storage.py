"""Storage: the one door to the disk, through which everything is written that a run keeps.

Three promises. A file or folder appears whole or not at all: it is written under a temporary name, synced,
renamed into place, and its parent synced. A disk that refuses gives one clear line (StorageError). And
every operation is counted, so that a test can fail or kill the process at operation 1, 2, 3 ... and see
that nothing is lost.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from regard.errors import StorageError
from regard.plain_files import open_plain

# A test sets this to see, fail or kill an operation before it happens. Called with its name and path.
before_operation: Callable[[str, Path], None] | None = None

# Operations and pieces of files that were done: of several processes, each sees by it that another gets on.
pieces_done = 0

PIECE = 2**26               # bytes of a file that are written, synced or hashed at once
TEMPORARY = ".part-"        # what an unfinished file or folder is called; swept up by `remove_unfinished`


def perform(operation: str, path: Path, act: Callable[[], Any]) -> Any:
    """One operation on the disk, counted; what the operating system refuses becomes a StorageError."""
    try:
        if before_operation is not None:
            before_operation(operation, path)
        return act()
    except OSError as error:
        raise StorageError(explain(operation, path, error)) from error
    finally:
        count_piece()


def count_piece() -> None:
    """Note that a piece of work on the disk was done."""
    global pieces_done
    pieces_done += 1


def write_synced(file: IO[bytes], raw: bytes) -> None:
    """Write and sync a file piece by piece: a disk that is slow gets on, one that hangs does not."""
    for first in range(0, len(raw) or 1, PIECE):
        file.write(memoryview(raw)[first:first + PIECE])
        file.flush()
        os.fsync(file.fileno())
        count_piece()


def explain(operation: str, path: Path, error: OSError) -> str:
    """Return one line on what the operating system refused, and what to do."""
    cached = path.absolute().is_relative_to(cache_folder().absolute())
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(_existing_parent(path)).free // 2**20
        elsewhere = "set REGARD_CACHE to a folder on another disk" if cached else "give another folder with --out"
        return (f"the disk is full ({free} MB free): could not {operation} {path}; free some space (`regard data cache "
                f"--clear` removes what can be made again), or {elsewhere}. What was saved before is intact")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        cure = "set REGARD_CACHE to a folder{}" if cached else "choose a folder{} with --out"
        return f"no permission to {operation} {path}: {cure.format(' you may write to')}"
    return f"could not {operation} {path}: {error.strerror or error}"


def _existing_parent(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def cache_folder(given: str | Path | None = None) -> Path:
    """The folder given, else $REGARD_CACHE, else ~/.cache/regard: where work is kept that could be done again."""
    if given is not None:
        return Path(given)
    named = os.environ.get("REGARD_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "regard"


def make_folder(path: Path) -> Path:
    """Make a folder and those above it that are missing; each is synced into the one that holds it."""
    path = Path(path)
    if not path.is_dir():
        if not path.parent.is_dir():
            make_folder(path.parent)
        perform("make", path, lambda: path.mkdir(exist_ok=True))
        sync_folder(path.parent)
    return path


def missing_above(path: Path) -> list[Path]:
    """Return the folders above a path that are missing, the outermost first."""
    return [folder for folder in reversed(path.parents) if not folder.exists()]


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders of which each holds the next, from the innermost on, up to one that is not empty."""
    with contextlib.suppress(OSError):
        for each in reversed(folders):
            each.rmdir()


@contextlib.contextmanager
def folders_above(path: Path) -> Iterator[None]:
    """Make the folders above a path that are missing; those that are empty at the end of the block are removed."""
    missing = missing_above(path)
    make_folder(path.parent)
    try:
        yield
    finally:
        remove_empty(missing)


def claim_folder(path: Path) -> list[Path]:
    """Make a folder that nobody else has, and return it after those above it that were made for it; nothing where one
    is there. Of many who ask at once, one is given it."""

    def act() -> bool:
        try:
            path.mkdir()
        except FileExistsError:
            return False
        return True

    missing = missing_above(path)
    make_folder(path.parent)
    if not perform("make", path, act):
        return []
    sync_folder(path.parent)
    return [*missing, path]


def write_file(path: Path, data: bytes | str) -> None:
    """Replace `path` by `data`, whole or not at all."""
    path = Path(path)
    part = own_part(path)
    try:
        write_part(part, data)
        perform("rename", path, lambda: os.replace(part, path))
    except StorageError:
        with contextlib.suppress(OSError):                   # a disk that refused once may refuse again
            part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def own_part(path: Path) -> Path:
    """A temporary name that nobody else gives what will be called so: several may be making the same at once."""
    return path.with_name(f"{TEMPORARY}{os.getpid()}-{threading.get_ident()}-{path.name}")


def write_part(path: Path, data: bytes | str) -> None:
    """Write and sync a file that is not in its final place yet."""
    raw = data.encode() if isinstance(data, str) else data

    def act() -> None:
        with open(path, "wb") as file:
            write_synced(file, raw)

    perform("write", path, act)


def finite(value: Any) -> Any:
    """The value without infinity and NaN, which are not JSON: they become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def format_json(values: Any) -> str:
    """Return one line of JSON, which any parser takes. Infinity is not JSON: it is written as null."""
    return json.dumps(finite(values), ensure_ascii=False)


def write_json(path: Path, value: Any) -> None:
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def append_line(path: Path, line: str) -> None:
    """Add one line to the end of a log, in one write."""

    def act() -> None:
        with open(path, "ab") as file:
            file.write(line.encode() + b"\n")

    perform("append to", path, act)


def sync_file(path: Path) -> None:
    """See that what was appended to a file survives a power cut; a file that is not there is left so."""

    def act() -> None:
        with open(path, "rb") as file:
            os.fsync(file.fileno())

    if path.exists():
        perform("sync", path, act)
        sync_folder(path.parent)                             # it may be new


def move_folder(part: Path, final: Path) -> None:
    """Bring a finished folder into place; its files must have been synced by `write_part`."""
    sync_folder(part)
    perform("rename", final, lambda: os.replace(part, final))
    sync_folder(final.parent)


def settle_folder(part: Path, final: Path, good: Callable[[Path], bool]) -> None:
    """`move_folder` where others may be doing the same: a good one that stands there already is left, and this one
    removed."""
    with locked(final.parent):
        while True:
            if final.exists():
                if good(final):
                    remove(part)
                    return
                _throw_away(final)
            try:
                move_folder(part, final)
                return
            except StorageError:
                if not (part.exists() and final.exists()):   # nobody was quicker: it is the disk
                    raise


def sync_folder(path: Path) -> None:
    def act() -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    if os.name == "posix":
        perform("sync", path, act)


def remove(path: Path) -> None:
    """Remove a file, a link (never what it points to) or a folder.

    A folder first takes a temporary name, so that it never stands half empty.
    """
    path = Path(path)
    if path.is_symlink():
        perform("remove", path, path.unlink)
        return
    if path.is_dir() and not path.name.startswith(TEMPORARY):
        gone = path.with_name(f"{TEMPORARY}gone-{path.name}")
        if gone.exists():
            perform("remove", gone, lambda: shutil.rmtree(gone))
        perform("rename", path, lambda: os.replace(path, gone))
        path = gone
    if path.is_dir():
        perform("remove", path, lambda: shutil.rmtree(path))
    elif path.exists():
        perform("remove", path, path.unlink)


def remove_unfinished(folder: Path) -> None:
    """Sweep up what an interrupted process left under temporary names."""
    for path in Path(folder).glob(f"{TEMPORARY}*"):
        remove(path)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def discard(path: Path, good: Callable[[Path], bool]) -> None:
    """Remove what is damaged, unless another process made it whole meanwhile."""
    with locked(path.parent):
        if not good(path):
            _throw_away(path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time settles and discards in a folder; where the system has no locks, all do."""
    if os.name != "posix":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _throw_away(path: Path) -> None:
    aside = own_part(path.with_name(f"damaged-{path.name}"))
    shutil.rmtree(aside, ignore_errors=True)
    try:
        perform("rename", path, lambda: os.replace(path, aside))
    except StorageError as refused:
        if isinstance(refused.__cause__, FileNotFoundError):     # another was quicker
            return
        raise
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """SHA-256 of a plain file, read in pieces: it may be larger than memory."""
    found = hashlib.sha256()
    with open_plain(path) as file:
        room = min(PIECE, os.fstat(file.fileno()).st_size + 1)           # it is taken whole, also for a small file
        while piece := file.read(room):
            found.update(piece)
            count_piece()
    return found.hexdigest()
