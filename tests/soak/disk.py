"""The shim between Regard and the disk: it sees each call that changes what lies in some folders, before it happens.

    with watch_disk([folder], before):        # before(call) may note it, raise an OSError, or kill the process
        ...

It stands at the calls of the operating system (open, write, fsync, rename, unlink, mkdir, rmdir, truncate), not at our
own operations, so that nothing in Regard can pass it by. `Call.part` is what a write has to write: whoever wants a torn
one says how much of it goes out. What is written without Python (by a library in C) is not seen: `replay` of everything
that was seen must give the folder as it is, and a test demands it.
"""

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch


@dataclass
class Call:
    """One call: `create` (also of a file that is there: it is emptied), `write`, `sync`, `rename`, `unlink`, `mkdir`,
    `rmdir` or `truncate`, on a path; of a write the bytes and where they go, of a rename the target."""

    kind: str
    path: str
    part: bytes = b""
    at: int = 0
    target: str = ""
    first: int | None = None             # set by `before`: only so many bytes of a write go out, and the call says so


Before = Callable[[Call], None]
CHANGES = {"w", "a", "x", "+"}


class SeenFile(io.FileIO):
    """A file whose writes are seen."""

    before: Before
    seen_path: str
    seen_appends: bool

    def write(self, data):
        raw = bytes(memoryview(data).cast("B"))
        at = os.fstat(self.fileno()).st_size if self.seen_appends else self.tell()
        call = Call("write", self.seen_path, raw, at)
        self.before(call)
        return super().write(raw if call.first is None else raw[:call.first])

    def truncate(self, size=None):
        size = self.tell() if size is None else size
        self.before(Call("truncate", self.seen_path, at=size))
        return super().truncate(size)


@contextmanager
def watch_disk(folders: Iterable[Path], before: Before) -> Iterator[None]:
    """Let `before` see each call on what lies in the folders, which need not be there yet."""
    roots = tuple(os.path.realpath(folder) for folder in folders)
    real = {name: getattr(os, name) for name in ("open", "rename", "replace", "unlink", "remove", "mkdir", "rmdir",
                                                 "fsync", "truncate", "link", "symlink")}
    real_open = io.open

    def within(path: str) -> bool:
        return any(path == root or path.startswith(root + os.sep) for root in roots)

    def full(path, dir_fd=None) -> str:
        path = os.fsdecode(path)
        if dir_fd is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
        head, tail = os.path.split(os.path.abspath(path))
        return os.path.join(os.path.realpath(head), tail)

    def of_handle(handle: int) -> str:
        try:
            return os.readlink(f"/proc/self/fd/{handle}")
        except OSError:
            return ""

    def open_file(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        path = of_handle(file) if isinstance(file, int) else full(file)
        if not set(mode) & CHANGES or not within(path) or opener is not None:
            return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int) and ("w" in mode or not os.path.lexists(path)):
            if "r" in mode:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
            before(Call("create", path))
        raw = SeenFile(file, "".join(letter for letter in mode if letter not in "bt"), closefd)
        raw.before, raw.seen_path, raw.seen_appends = before, path, "a" in mode
        if buffering == 0:
            return raw
        held = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        return held if "b" in mode else io.TextIOWrapper(held, encoding, errors, newline)

    def open_handle(path, flags, mode=0o777, *, dir_fd=None):
        if flags & (os.O_CREAT | os.O_TRUNC):
            where = full(path, dir_fd)
            if within(where) and (flags & os.O_TRUNC or not os.path.lexists(where)):
                before(Call("create", where))
        return real["open"](path, flags, mode, dir_fd=dir_fd)

    def two(kind):
        def act(source, target, *, src_dir_fd=None, dst_dir_fd=None):
            there = full(target, dst_dir_fd)
            if within(there):
                before(Call("rename", full(source, src_dir_fd), target=there))
            return real[kind](source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        return act

    def one(name, kind):
        def act(path, *given, dir_fd=None):
            where = full(path, dir_fd)
            if within(where):
                before(Call(kind, where))
            return real[name](path, *given, dir_fd=dir_fd)
        return act

    def sync(handle):
        number = handle if isinstance(handle, int) else handle.fileno()
        path = of_handle(number)
        if within(path):
            before(Call("sync", path))
        return real["fsync"](handle)

    def unseen(name):
        def act(path, *given, **options):
            if not isinstance(path, int) and within(full(path)):
                raise AssertionError(f"os.{name}, which this shim does not see, on {path}")
            return real[name](path, *given, **options)
        return act

    changed = {"open": open_handle, "rename": two("rename"), "replace": two("replace"),
               "unlink": one("unlink", "unlink"), "remove": one("remove", "unlink"),
               "mkdir": one("mkdir", "mkdir"), "rmdir": one("rmdir", "rmdir"),
               "fsync": sync, **{name: unseen(name) for name in ("truncate", "link", "symlink")}}
    with (patch.multiple(os, **changed), patch.object(builtins, "open", open_file),
          patch.object(io, "open", open_file)):
        yield
