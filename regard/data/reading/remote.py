"""Texts at an address: on object stores and network file systems, through fsspec (`regard[remote]`).

`s3://bucket/*.txt`, `gs://...`, `https://...`, `file://...`, `memory://...`: a file, a folder or a pattern. A thread
reads ahead of what is worked on. Only an address that the user gives now is opened, never one that a run's settings
hold: a stranger's run shall not choose where a connection goes.
"""

from __future__ import annotations

import io
import queue
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from regard.errors import DataError, RegardError, SettingError

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
PATTERN = re.compile(r"[*?\[]")
AHEAD = 2**22                 # bytes read at once, ahead of what is worked on
BLOCKS = 4                    # of these, held at most
HERE_ALONE = ("memory://",)   # what no other process can read


def is_address(name: Any) -> bool:
    return ADDRESS.match(str(name)) is not None


def refuse_addresses(names: Sequence[Any]) -> None:
    """Refuse to open the addresses among some names that the user did not give now."""
    for name in names:
        if is_address(name):
            raise SettingError(f"{name} comes from the settings of a run, and an address there is not opened by "
                               "itself: name it again")


def find_files_at(address: str, wanted: Callable[[str], bool]) -> list[tuple[str, int]]:
    """The addresses meant by this one, with their sizes in bytes: itself, what fits a pattern, or the wanted files of a
    folder and those below, by name."""
    with told(address):
        system, path = open_system(address)
        if PATTERN.search(path):
            found = {each: info for each, info in system.glob(path, detail=True).items() if info["type"] == "file"}
            if not found:
                raise DataError(f"{address} fits no file: check the name, and that quotes keep it from the shell")
        elif system.isdir(path):
            found = {each: info for each, info in system.find(path, detail=True).items()
                     if wanted(each.rpartition("/")[2]) and not is_hidden(each.removeprefix(path))}
            if not found:
                raise DataError(f"{address} has no text in it: name its files one by one, or with a pattern")
        else:
            found = {path: system.info(path)}
        return [(system.unstrip_protocol(each), int(found[each].get("size") or 0)) for each in sorted(found)]


def is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


@contextmanager
def open_address(address: str, ahead: bool = True) -> Iterator[BinaryIO]:
    """The bytes at an address; with `ahead`, a thread has the next ones ready."""
    with told(address):
        system, path = open_system(address)
        raw = system.open(path, "rb")
    try:
        if not ahead:
            yield cast(BinaryIO, raw)
            return
        with io.BufferedReader(ReadAhead(raw, address), AHEAD) as stream:
            yield cast(BinaryIO, stream)
    finally:
        raw.close()


def open_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path there."""
    if "::" in address:
        raise SettingError(f"{address}: addresses within addresses are not opened; give a plain one")
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise DataError(f"{address} needs fsspec to be read: pip install 'regard[remote]'") from None
    try:
        return url_to_fs(address)
    except ImportError as missing:                           # fsspec says which package: s3fs, gcsfs, ...
        raise DataError(f"{address} cannot be read yet: {one_line(missing)}") from None


@contextmanager
def told(address: str) -> Iterator[None]:
    """Whatever a file system raises, as one line of ours: each has its own kinds of errors."""
    try:
        yield
    except RegardError:
        raise
    except FileNotFoundError:
        raise DataError(f"{address} does not exist: check the name") from None
    except PermissionError as error:
        raise DataError(f"no permission to read {address} ({one_line(error)}): check your keys") from None
    except Exception as error:
        raise DataError(f"could not read {address} ({type(error).__name__}: {one_line(error)})") from None


def one_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]


class ReadAhead(io.RawIOBase):
    """A stream that a thread reads ahead of its reader, from the first read on; a seek begins anew."""

    def __init__(self, stream: Any, address: str):
        self.stream, self.address, self.position = stream, address, 0
        self.blocks: queue.Queue[bytes | Exception] | None = None
        self.left = memoryview(b"")
        self.ended = False
        self.stopped = threading.Event()
        self.thread: threading.Thread | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.stop()
        where = offset + self.position if whence == io.SEEK_CUR else offset
        self.position = self.stream.seek(where, io.SEEK_END if whence == io.SEEK_END else io.SEEK_SET)
        return self.position

    def readinto(self, room: Any) -> int:
        if not self.left and not self.ended:
            self.left = memoryview(self.following())
            self.ended = not self.left
        data = self.left[:len(room)]
        room[:len(data)] = data
        self.left = self.left[len(data):]
        self.position += len(data)
        return len(data)

    def following(self) -> bytes:
        """The next block; empty at the end."""
        if self.thread is None:
            self.blocks, self.stopped = queue.Queue(BLOCKS), threading.Event()
            self.thread = threading.Thread(target=self.fetch, args=(self.blocks, self.stopped), daemon=True)
            self.thread.start()
        assert self.blocks is not None
        block = self.blocks.get()
        if isinstance(block, Exception):
            with told(self.address):
                raise block
        return block

    def fetch(self, blocks: queue.Queue[bytes | Exception], stopped: threading.Event) -> None:
        block: bytes | Exception = b"some"
        while block and not isinstance(block, Exception) and not stopped.is_set():
            try:
                block = self.stream.read(AHEAD)
            except Exception as error:                       # the reader's thread raises it
                block = error
            while not stopped.is_set():
                try:
                    blocks.put(block, timeout=0.1)
                    break
                except queue.Full:
                    continue

    def stop(self) -> None:
        """End the thread and forget what it read."""
        if self.thread is not None:
            self.stopped.set()
            self.thread.join()
        self.thread, self.left, self.ended = None, memoryview(b""), False

    def close(self) -> None:
        if not self.closed:
            self.stop()
        super().close()
