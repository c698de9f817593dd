"""Places that only this user can write: code that is kept to be run later is kept nowhere else.

Whoever can write a library runs code as the one who loads it. A hash beside it is no guard: they can write that, too.
So a folder must belong to this user, and nobody else may write to it; and a file in it likewise. Both are asked of what
was opened, not of a name that may come to mean something else, and no link is followed. The hash is there for damage.

    with open_folder(path) as folder:          # made where there is none; NotPrivate says why it will not do
        data = load_file(folder, name)
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard import storage
from regard.errors import StorageError

CURE = "set REGARD_CACHE to a folder of your own"
LARGEST = 2**26                                  # bytes of a library


class NotPrivate(StorageError):
    """Somebody else may have written this, or may come to."""


def folder_of(kind: str) -> Path:
    """The folder of this user's code of a kind: users who share a cache share no code."""
    return storage.cache_folder() / kind / f"user-{_user()}"


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """A handle of a folder that only this user can write; it is made if there is none."""
    storage.make_folder(path.parent)
    kind = path.parent.resolve()
    for depth, above in enumerate((kind, *kind.parents)):
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not (depth > 1 and mode & stat.S_ISVTX):     # /tmp is sticky
            raise NotPrivate(f"everybody may write to {above}")
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NotPrivate(f"{path} is no folder, or a link to one ({error.strerror})") from error
    try:
        _check(handle, str(path))
        yield handle
    finally:
        os.close(handle)


def load_file(folder: int, name: str) -> bytes | None:
    """All of a file in an open folder, if only this user can have written it; None if there is none."""
    try:
        # A pipe would make us wait for its writer.
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotPrivate(f"{name} is no plain file ({error.strerror})") from error
    try:
        _check(handle, name)
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
            raise NotPrivate(f"{name} is no plain file of at most {LARGEST:,} bytes")
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def write_file(folder: int, name: str, data: bytes) -> None:
    """Replace a file in an open folder, whole or not at all; only this user can write it."""
    part = f"{storage.TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise


def _check(handle: int, name: str) -> None:
    about = os.fstat(handle)
    if about.st_uid != _user():
        raise NotPrivate(f"{name} belongs to another user (number {about.st_uid})")
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivate(f"others may write to {name} (mode {stat.S_IMODE(about.st_mode):o})")


def _user() -> int:
    return os.geteuid()


def tell(text: str) -> None:
    print(f"({text})", file=sys.stderr, flush=True)
