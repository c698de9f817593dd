"""Room to count in: memory, or the disk for a text that is larger than memory.

Counting needs a few long arrays, and the keys of one order sorted. Many keys are first dealt out by range into parts,
each small enough to be sorted by itself: sorted one after another, they are sorted altogether. On the disk every array
and part is a mapped file without a name, which the system removes with the process, however that ends.

DuckDB was measured first: to group 4 million 5-grams within 512 MB it took 2.7 seconds of a processor, as long as all
orders together take here, ids and suffixes included.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from regard.errors import SettingError, StorageError

Ints = NDArray[Any]          # of whichever width
Floats = NDArray[Any]        # float32 or float64
KeysBetween = Callable[[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]      # (start, stop) -> keys, places

A_TOKEN = 56                 # bytes a token takes while it is counted, at most, in memory
A_GRAM = 20                  # and bytes it takes for good in each order: what is counted, and what smoothing adds
SORTING = 64                 # bytes a key takes while it is sorted
CHUNK = 1 << 22              # and so many keys are sorted at a time, at most
SAMPLE = 1 << 16             # keys looked at to divide the rest fairly
FILES = 256                  # open at a time, at most


class Room:
    """Room in memory. Even there, parts that fit the processor's cache are sorted sooner than the whole."""

    def __init__(self, chunk: int = CHUNK) -> None:
        self.chunk = chunk                         # how many tokens or n-grams are worked on at a time

    def pile(self, dtype: DTypeLike) -> Pile:
        return Pile(np.dtype(dtype))

    def filled(self, size: int, value: float, dtype: DTypeLike) -> NDArray[Any]:
        return np.full(size, value, dtype)

    def by_range(self, keys_between: KeysBetween, size: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """All keys and their places among 1 .. size - 1, in parts: every key of a part is below those of the next."""
        if size <= self.chunk:
            yield keys_between(1, size)
            return
        edges = self._edges(keys_between, size)
        piles = [(self.pile(np.int64), self.pile(np.int64)) for _ in range(len(edges) + 1)]
        for start in range(1, size, self.chunk):
            keys, places = keys_between(start, min(start + self.chunk, size))
            of = np.searchsorted(edges, keys, side="right").astype(np.int16)
            order = np.argsort(of, kind="stable")
            cuts = np.searchsorted(of[order], np.arange(1, len(piles)))
            for (some_keys, some_places), part in zip(piles, np.split(order, cuts), strict=True):
                some_keys.add(keys[part])
                some_places.add(places[part])
        while piles:
            keys, places = (np.array(pile.array()) for pile in piles.pop(0))
            if len(keys):
                yield keys, places

    def _edges(self, keys_between: KeysBetween, size: int) -> Ints:
        """Keys that divide all of them into parts of at most a chunk, by a sample."""
        parts = min(FILES // 2, 2 * size // self.chunk + 1)
        runs = min(256, max(1, size // 2))
        starts = np.linspace(1, max(1, size - SAMPLE // runs), runs).astype(np.int64)
        keys = np.concatenate([keys_between(start, min(start + SAMPLE // runs, size))[0] for start in starts.tolist()])
        keys.sort()
        return np.unique(keys[np.arange(1, parts) * len(keys) // parts]) if len(keys) else keys


class Pile:
    """An array that grows at its end."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.parts: list[NDArray[Any]] = []

    def add(self, part: NDArray[Any]) -> None:
        self.parts.append(part.astype(self.dtype, copy=False))

    def array(self) -> NDArray[Any]:
        if len(self.parts) != 1:
            self.parts = [np.concatenate([np.zeros(0, self.dtype), *self.parts])]
        return self.parts[0]


# --------------------------------------------------------------------------------------------- the disk


class DiskRoom(Room):
    """Room on the disk, using about `budget` bytes of memory at a time."""

    def __init__(self, folder: Path, budget: float) -> None:
        super().__init__(min(CHUNK, max(256, int(budget / SORTING))))
        self.folder = folder

    def pile(self, dtype: DTypeLike) -> Pile:
        return DiskPile(np.dtype(dtype), self.folder)

    def filled(self, size: int, value: float, dtype: DTypeLike) -> NDArray[Any]:
        pile = self.pile(dtype)
        for start in range(0, size, self.chunk):
            pile.add(np.full(min(self.chunk, size - start), value, dtype))
        return pile.array()


class DiskPile(Pile):
    def __init__(self, dtype: np.dtype, folder: Path) -> None:
        super().__init__(dtype)
        self.folder, self.size = folder, 0
        self.file = _guarded(folder, lambda: tempfile.TemporaryFile(dir=folder, prefix=".part-"))  # noqa: SIM115

    def add(self, part: NDArray[Any]) -> None:
        _guarded(self.folder, lambda: _write(self.file, part.astype(self.dtype, copy=False)))
        self.size += len(part)

    def array(self) -> NDArray[Any]:
        """The array as a map of the file, which may be written to; nothing can be added after this."""
        _guarded(self.folder, self.file.flush)
        with self.file as file:
            return np.asarray(np.memmap(file, self.dtype, "r+", shape=(self.size,))) if self.size else np.zeros(
                0, self.dtype)


def _write(file: BinaryIO, part: NDArray[Any]) -> None:
    if len(part):
        file.write(np.ascontiguousarray(part).data.cast("B"))


def _guarded(folder: Path, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except OSError as error:
        raise StorageError(f"could not count on the disk, in {folder} ({error.strerror or error}): free some space, "
                           "set REGARD_CACHE to a folder on another disk, or allow more memory") from error


# --------------------------------------------------------------------------------------------- which


def room_for(tokens: int, order: int, gigabytes: float, folder: Path) -> Room:
    """Memory if the text can be counted in so many GB (0: in half of what is free), else the disk."""
    check_memory(gigabytes)
    budget = gigabytes * 2**30 or free_memory() / 2
    if tokens * (A_TOKEN + A_GRAM * order) <= budget:
        return Room()
    _guarded(folder, lambda: folder.mkdir(parents=True, exist_ok=True))
    return DiskRoom(folder, budget)


def check_memory(gigabytes: float) -> None:
    if not 0 <= gigabytes < float("inf"):
        raise SettingError(f"memory {gigabytes}: say how many GB counting may take, or 0 for half of what is free")


def free_memory() -> int:
    """Bytes that can be had without disturbing others, as far as the system says."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            return 1024 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30
