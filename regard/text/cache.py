"""The cache of work done on texts: surveys, tokenizers and shards, under keys that are hashes of content.

Nothing here is precious: an entry that is damaged is made again, and the folder may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from regard import storage
from regard.errors import DataError
from regard.text.readers import Source, open_source
from regard.text.shards import Shard
from regard.text.vocabulary import Tokenizer

FORGOTTEN = 24 * 3600             # seconds after which an unfinished entry belongs to nobody


def cache_folder(given: str | Path | None = None) -> Path:
    """The folder given, else $REGARD_CACHE, else ~/.cache/regard."""
    if given is not None:
        return Path(given)
    named = os.environ.get("REGARD_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "regard"


def content_hash(sources: Sequence[Source]) -> str:
    """A hash of what the sources hold, whatever they are called."""
    whole = hashlib.sha256()
    for source in sources:
        with open_source(Source(source.name, source.path)) as stream:      # the bytes as they are, still packed
            whole.update(hashlib.file_digest(cast(BufferedReader, stream), "sha256").digest())
        whole.update(f"{source.format} {source.packed}".encode())
    return whole.hexdigest()


def key_of(*parts: Any) -> str:
    """One short name for everything that decides an entry."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


class Cache:
    """Entries by key; each `get` makes what is missing."""

    def __init__(self, folder: str | Path | None = None):
        self.folder = cache_folder(folder)

    def json(self, kind: str, key: str, make: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
        """A small value, and whether it was there already."""
        path = self.folder / kind / f"{key}.json"
        try:
            found = json.loads(path.read_text("utf-8"))
            if isinstance(found, dict):
                return found, True
        except (OSError, ValueError):
            pass
        value = make()
        storage.make_folder(path.parent)
        storage.write_json(path, value)
        return value, False

    def tokenizer(self, key: str, make: Callable[[], Tokenizer]) -> tuple[Tokenizer, bool]:
        path = self.folder / "tokenizers" / f"{key}.json"
        try:
            return Tokenizer.load(path), True
        except DataError:
            pass
        made = make()
        storage.make_folder(path.parent)
        made.save(path)
        return made, False

    def shard(self, key: str, make: Callable[[Path], Shard]) -> tuple[Shard, bool]:
        path = self.folder / "shards" / key
        if path.exists():
            try:
                return Shard.open(path), True
            except DataError:
                storage.remove(path)
        self._sweep(path.parent)
        return make(path), False

    def _sweep(self, folder: Path) -> None:
        """Remove what a process killed long ago left unfinished; a fresh one may still be at work."""
        for path in folder.glob(f"{storage.TEMPORARY}*"):
            try:
                old = time.time() - path.stat().st_mtime > FORGOTTEN
            except OSError:
                continue
            if old:
                storage.remove(path)
