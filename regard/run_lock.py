"""The lock of a run: one process a folder; a second one learns who has it.

The lock is `flock` on the file `lock`, which the operating system lets go when the process dies, however it dies. The
file says who holds it: process and host. Where several hosts share a disk, `flock` may not reach from one to another:
there the holder touches the file now and then, and a lock that nobody has touched for minutes is taken over.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from regard import storage
from regard.errors import RunError
from regard.plain_files import check_plain

try:
    import fcntl
except ImportError:                                          # Windows: the touches alone decide
    fcntl = None                                             # type: ignore[assignment]

LOCK = "lock"
TOUCH_SECONDS = 20.0
STALE_SECONDS = 300.0          # fifteen touches missed: the host is down, or the process is gone


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a RunError with the other's process and host where somebody else does."""
    path = folder / LOCK
    file, done = acquire(path), threading.Event()
    touching = threading.Thread(target=touch, args=(file, done), daemon=True)
    touching.start()
    try:
        yield
    finally:
        done.set()
        touching.join()
        release(file, path)


@contextmanager
def use_folder(folder: Path, made: Sequence[Path], begun: Path) -> Iterator[None]:
    """Hold the lock of a folder. Folders that were `made` for this are removed unless the file `begun` came to be.

    Only the holder removes it: whoever is refused leaves it to the process that was quicker.
    """
    unused = False
    try:
        with hold_lock(folder):
            try:
                yield
            finally:
                unused = bool(made) and not begun.exists()
                if unused and fcntl is not None:
                    remove_unused(made)
    finally:
        if unused and fcntl is None:                         # Windows removes no folder in which a file is open
            remove_unused(made)


def remove_unused(made: Sequence[Path]) -> None:
    """Remove a folder, and those above it that were made for it, unless something else is in one."""
    *above, folder = made
    storage.remove(folder)
    storage.remove_empty(above)


def acquire(path: Path) -> IO[bytes]:
    while True:
        storage.make_folder(path.parent)                     # its last holder may have removed it, too
        if path.is_symlink():
            raise RunError(f"{path} is a link, and a lock is written only where it lies: remove the link")
        file: IO[bytes] = storage.perform("lock", path, lambda: open_lock(path))
        given = ask_system(file)
        holder = read_holder(file)
        if given is False:
            file.close()
            refuse(path, holder)
        if is_same_file(file, path):
            break
        file.close()                                         # its last holder removed it meanwhile
    ended = given is True and holder.get("host") == socket.gethostname()
    if holder and not ended and seconds_since_touched(path) < STALE_SECONDS:
        file.close()
        refuse(path, holder, f"; if that has ended, remove {path} or wait {STALE_SECONDS / 60:.0f} minutes")
    storage.perform("write", path, lambda: write_holder(file))
    return file


def release(file: IO[bytes], path: Path) -> None:
    """Remove the lock and let it go."""
    ours = is_same_file(file, path)                          # the folder may have been removed, and made again
    if fcntl is None:                                        # Windows removes no file that is open
        file.close()
    if ours:
        with suppress(OSError):                              # a disk that refuses: the lock is let go all the same
            path.unlink()                                    # while it is held: nobody can lock it in between
    file.close()


def open_lock(path: Path) -> IO[bytes]:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o644)
    try:
        check_plain(os.fstat(handle), path)
        return os.fdopen(handle, "r+b")
    except BaseException:
        os.close(handle)
        raise


def ask_system(file: IO[bytes]) -> bool | None:
    """True if the operating system gives us the lock; None where it has none to give, as on some shared disks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_same_file(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def seconds_since_touched(path: Path) -> float:
    """By the clock of the disk, which may be another host's: a file written now tells it."""
    now = storage.own_part(path)
    storage.write_part(now, b"")
    try:
        return now.stat().st_mtime - path.stat().st_mtime
    finally:
        now.unlink()


def read_holder(file: IO[bytes]) -> dict[str, Any]:
    file.seek(0)
    try:
        holder = json.loads(file.read(4096))
    except ValueError:                                       # empty, or torn by a kill
        return {}
    return holder if isinstance(holder, dict) else {}


def write_holder(file: IO[bytes]) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
    file.flush()


def refuse(path: Path, holder: dict[str, Any], or_else: str = "") -> NoReturn:
    who = (f"process {holder['pid']} on {holder.get('host', 'an unknown host')}" if "pid" in holder
           else "another process")
    raise RunError(f"{path.parent} is in use by {who}: wait for it, stop it, or choose another folder with --out"
                   f"{or_else}")


def touch(file: IO[bytes], done: threading.Event) -> None:
    """Touch the file that is held, whatever its name means by now."""
    while not done.wait(TOUCH_SECONDS):
        with suppress(OSError):                              # a disk that refuses is met by training itself
            os.utime(file.fileno() if os.utime in os.supports_fd else file.name)
