"""The cache of work done on texts: surveys, tokenizers and shards, under keys that are hashes of content.

Nothing here is precious: any entry may be removed at any time. Nothing here is believed: an entry is used only while
the SHA-256 of all it holds is the one it was sealed with; a damaged one is made again, and one line says so. When an
entry was used last is its time of change; `regard data cache` shows what there is, and clears it.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache as remember
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from regard import storage
from regard.data.reading import seals
from regard.data.reading.readers import TextFile, open_source
from regard.data.reading.seals import Opened
from regard.data.tokens.vocabulary import Tokenizer
from regard.errors import DataError, StorageError, note
from regard.storage import cache_folder

FORGOTTEN = 24 * 3600             # seconds after which an unfinished entry belongs to nobody
KINDS = ("embedded", "surveys", "tokenizers", "segments", "shards", "pairs", "captions", "pictures", "kernels",
         "compiled", "exports")


def content_hash(sources: Sequence[TextFile]) -> str:
    """A hash of what the sources hold, whatever they are called."""
    whole = hashlib.sha256()
    for source in sources:
        with open_source(replace(source, packed=False)) as stream:           # the bytes as they are, still packed
            whole.update(hashlib.file_digest(cast(BufferedReader, stream), "sha256").digest())
        whole.update(f"{source.format} {source.packed}".encode())
    return whole.hexdigest()


def key_of(*parts: Any) -> str:
    """One short name for everything that decides an entry."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


class Cache:
    """Entries by key: each is opened if it is whole, and made if it is missing or damaged; `say` hears of damage."""

    def __init__(self, folder: str | Path | None = None, say: Callable[[str], None] = seals.tell):
        self.kept, self.say = cache_folder(folder), say
        self.folder = self.kept if may_write(self.kept) else aside(self.kept)      # where entries are made

    def entry(
        self, kind: str, key: str, open_entry: Callable[[Path], Opened], make: Callable[[Path], Opened]
    ) -> tuple[Opened, bool]:
        """A sealed file or folder, and whether it was there already."""
        path = self.folder / kind / key
        if self.folder != self.kept:
            with suppress(DataError):                        # missing or damaged: it cannot be thrown away there
                return open_entry(self.kept / kind / key), True
        if not path.exists():
            self._sweep(path.parent)
        found, reused = seals.open_or_make(path, open_entry, make, self.say)
        used(path)
        return found, reused

    def json(self, kind: str, key: str, make: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
        """A small value, and whether it was there already."""
        return self.entry(kind, f"{key}.sealed", seals.load_value, lambda path: seals.write_value(path, make()))

    def tokenizer(self, key: str, make: Callable[[], Tokenizer]) -> tuple[Tokenizer, bool]:
        def write(path: Path) -> Tokenizer:
            made = make()
            seals.write_value(path, made.to_json())
            return made

        return self.entry("tokenizers", f"{key}.sealed",
                          lambda path: Tokenizer.from_json(seals.load_value(path), str(path)), write)

    def _sweep(self, folder: Path) -> None:
        """Remove what a process killed long ago left unfinished; a fresh one may still be at work."""
        for path in folder.glob(f"{storage.TEMPORARY}*"):
            with suppress(OSError, StorageError):        # another process may be sweeping, too
                if time.time() - path.stat().st_mtime > FORGOTTEN:
                    storage.remove(path)


# ------------------------------------------------------------------------------------------ where it may be written


def may_write(folder: Path) -> bool:
    """True if entries may be made there; False on a disk that is only read, and in a folder of somebody else."""
    kinds = (folder / kind for kind in KINDS)
    return all(os.access(each, os.W_OK | os.X_OK) for each in (existing(folder), *kinds) if each.exists())


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(each for each in (folder, *folder.absolute().parents) if each.exists())


@remember
def aside(folder: Path) -> Path:
    """A folder that goes with this process, in the place of a cache that cannot be written to."""
    note(f"the cache {folder} cannot be written to: what is prepared is kept for this command alone; for longer, set "
         "REGARD_CACHE to a folder that you may write to")
    made = tempfile.mkdtemp(prefix="regard-cache-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


# ------------------------------------------------------------------------------------------------ looking after it


@dataclass(frozen=True)
class CacheEntry:
    """A file or folder of the cache."""

    kind: str
    path: Path
    size: int                         # bytes
    used: float                       # seconds since 1970


def used(path: Path) -> None:
    """Say that an entry was of use just now, where that may be written down."""
    with suppress(OSError):
        os.utime(path)


def entries(folder: Path, idle: float = 0.0) -> list[CacheEntry]:
    """Return the entries of the kinds that are made here, unused for so many seconds at least."""
    listed, now = [], time.time()
    for kind in KINDS:
        for path in sorted((folder / kind).glob("*")):
            with suppress(OSError):                  # another process may be clearing, too
                last = path.stat().st_mtime
                if now - last >= max(idle, FORGOTTEN if path.name.startswith(storage.TEMPORARY) else 0.0):
                    listed.append(CacheEntry(kind, path, size_of(path), last))
    return listed


def size_of(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
