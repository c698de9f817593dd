"""Shards: a text as token ids on disk, memory-mapped, with the end of each document.

A shard is a folder. `tokens.bin` holds the ids (uint16, or uint32 for a large vocabulary), each document
followed by `<eos>`; `documents.bin` the offset after each document (uint64); `shard.json` the counts; `SHA256SUMS` the
hash of each. It is written in one streaming pass, appears whole or not at all, and opens only if every bit is as it was
written. A document whose end lies outside (the text was cut there to hold the rest out) has no `<eos>`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np

from regard import storage
from regard.data.reading.readers import TextPiece
from regard.data.reading.seals import CURE, check_folder, write_folder
from regard.data.tokens.vocabulary import EOS, UNK, Tokenizer
from regard.errors import DataError

T = TypeVar("T")
VERSION = 1
BATCH = 2**21                    # characters encoded at once
BATCH_PIECES = 2**14             # and pieces, where they are short

TOKENS, ENDS, ABOUT = "tokens.bin", "documents.bin", "shard.json"
_SPACES = np.zeros(256, dtype=bool)
_SPACES[[9, 10, 11, 12, 13, 32]] = True


@dataclass(frozen=True)
class Counts:
    """The counts of a shard: of its text, and of its tokens (`<eos>` included, one a finished document)."""

    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class Shard:
    """A shard opened for reading; the arrays are maps of the files, not copies."""

    path: Path
    tokens: np.ndarray
    ends: np.ndarray
    counts: Counts
    tokenizer: str                # the digest of the tokenizer that made it
    content: str                  # a hash of the tokens and the document ends

    def __len__(self) -> int:
        return len(self.tokens)

    def first(self, most: int) -> Shard:
        """Return the shard's first tokens, `most` at most; whole documents, unless the first one is longer.

        Of its text bytes, characters and words are counted by share: as many a token as in the whole shard.
        """
        if len(self.tokens) <= most:
            return self
        documents = int(np.searchsorted(self.ends, most, "right"))
        size = int(self.ends[documents - 1]) if documents else most
        ends = self.ends[:documents] if documents else np.array([most], self.ends.dtype)
        share = size / len(self.tokens)
        scaled = {name: round(share * value) for name, value in asdict(self.counts).items()}
        unknown = int(np.count_nonzero(self.tokens[:size] == UNK))
        counts = Counts(**{**scaled, "tokens": size, "documents": len(ends), "unknown": unknown})
        return Shard(self.path, self.tokens[:size], ends, counts, self.tokenizer, self.content)

    @staticmethod
    def open(path: str | Path) -> Shard:
        """Map a shard; one that is not as it was written is a DataError."""
        path = Path(path)
        check_folder(path)
        try:
            about = json.loads((path / ABOUT).read_text("utf-8"))
            counts = Counts(**about["counts"])
            dtype = np.dtype({"uint16": "<u2", "uint32": "<u4"}[about["dtype"]])
            tokens = map_array(path / TOKENS, dtype, (counts.tokens,))
            ends = map_array(path / ENDS, np.dtype("<u8"), (counts.documents,))
            if about["version"] != VERSION or (len(ends) and int(ends[-1]) != len(tokens)):
                raise ValueError("its parts do not fit together")
            return Shard(path, tokens, ends, counts, about["tokenizer"], about["content"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"the token shard {path} is damaged ({error}): {CURE}") from None


def map_array(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """An array that is the whole of a file."""
    size, wanted = path.stat().st_size, math.prod(shape) * dtype.itemsize
    if size != wanted:
        raise ValueError(f"{path.name} has {size:,} bytes, not {wanted:,}")
    # A plain array over the map: the same pages, without the cost of numpy's memmap class at each index.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=shape)) if wanted else np.zeros(shape, dtype)


def write_shard(path: Path, pieces: Iterable[TextPiece], tokenizer: Tokenizer) -> Shard:
    """Encode the pieces into a new shard at `path`, holding no more than a batch of them at a time."""
    return write_folder(Path(path), lambda folder: _fill(folder, tokenizer, lambda writer: writer.encode(pieces)),
                        Shard.open)


def write_part(path: Path, pieces: Iterable[TextPiece], tokenizer: Tokenizer) -> Path:
    """Encode some pieces of a text, of which others follow: its last document may go on there."""

    def fill(folder: Path) -> None:
        _fill(folder, tokenizer, lambda writer: writer.encode(pieces), whole=False)

    return write_folder(Path(path), fill, check_folder)


def join_parts(path: Path, parts: Iterable[Path], tokenizer: Tokenizer) -> Shard:
    """The shard that `write_shard` gives for the pieces of all parts together."""

    def join(writer: _Writer) -> None:
        for part in parts:
            writer.join(part)

    return write_folder(Path(path), lambda folder: _fill(folder, tokenizer, join), Shard.open)


def _fill(folder: Path, tokenizer: Tokenizer, add: Callable[[_Writer], None], whole: bool = True) -> None:
    with _Writer(folder, tokenizer) as writer:
        add(writer)
        about = writer.finish(whole)
    storage.write_part(folder / ABOUT, json.dumps(about, indent=2) + "\n")


def group_by_size(
    items: Iterable[T], measure: Callable[[T], int], size: int, most: float = math.inf
) -> Iterator[list[T]]:
    """The items in lists that are full when they reach this size, or have `most` items."""
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += measure(item)
        if total >= size or len(group) >= most:
            yield group
            group, total = [], 0
    if group:
        yield group


class ArrayFiles:
    """New files of a folder, to which arrays are appended; each is hashed as it grows."""

    def __init__(self, folder: Path, *names: str):
        self.folder, self.names = folder, names
        self.hashes = {name: hashlib.sha256() for name in names}
        self.files: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        for name in self.names:
            self.files[name] = storage_call("write", self.folder / name, lambda path: open(path, "wb"))  # noqa: SIM115
        return self

    def __exit__(self, *error: Any) -> None:
        for file in self.files.values():
            with suppress(OSError):                          # of what `sync` was refused, which is told already
                file.close()

    def append(self, name: str, values: np.ndarray) -> None:
        data = values.tobytes()
        self.hashes[name].update(data)
        storage_call("write", self.folder / name, lambda path: self.files[name].write(data))

    def sync(self) -> str:
        """Return the hash of all that was appended; it is on the disk after this."""
        for name, file in self.files.items():
            storage_call("write", self.folder / name, lambda path, file=file: file.flush())
            storage_call("sync", self.folder / name, lambda path, file=file: os.fsync(file.fileno()))
        hashes = [each.hexdigest() for each in self.hashes.values()]
        return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()


class _Writer(ArrayFiles):
    """Appends batches of texts to the two files of a shard, and counts them."""

    def __init__(self, folder: Path, tokenizer: Tokenizer):
        super().__init__(folder, TOKENS, ENDS)
        self.tokenizer = tokenizer
        self.dtype = "uint16" if tokenizer.vocab_size <= 2**16 else "uint32"
        self.counts = dict.fromkeys(asdict(Counts()), 0)
        self.open_document: bool | None = None       # True: it goes on; None: there is none yet

    def encode(self, pieces: Iterable[TextPiece]) -> None:
        for batch in group_by_size(pieces, lambda piece: len(piece.text), BATCH, BATCH_PIECES):
            self.add(batch)

    def add(self, batch: list[TextPiece]) -> None:
        texts = [piece.text for piece in batch]
        encoded = self.tokenizer.encode_batch(texts)
        ends = np.array([piece.ends for piece in batch])
        after = np.cumsum([len(ids) for ids in encoded])                   # the offset after each piece
        flat = np.concatenate(encoded)
        with_ends = np.insert(flat, after[ends], EOS)
        document_ends = self.counts["tokens"] + after[ends] + np.arange(1, ends.sum() + 1)
        self._count_text(texts)
        self.counts["tokens"] += len(with_ends)
        self.counts["documents"] += len(document_ends)
        self.counts["unknown"] += int(np.count_nonzero(flat == UNK))
        self.open_document = not batch[-1].ends
        self.append(TOKENS, with_ends.astype("<u2" if self.dtype == "uint16" else "<u4"))
        self.append(ENDS, document_ends.astype("<u8"))

    def _count_text(self, texts: list[str]) -> None:
        raw = "\n".join(texts).encode()                                    # a newline too many between pieces
        space = _SPACES[np.frombuffer(raw, dtype=np.uint8)]
        starts = np.count_nonzero(space[:-1] & ~space[1:]) + int(len(space) > 0 and not space[0])
        self.counts["bytes"] += len(raw) - (len(texts) - 1)
        self.counts["characters"] += sum(map(len, texts))
        self.counts["words"] += int(starts)

    def join(self, part: Path) -> None:
        """Append what `write_part` wrote."""
        about = json.loads((part / ABOUT).read_text("utf-8"))
        tokens, ends = (np.fromfile(part / name, dtype)
                        for name, dtype in ((TOKENS, f"<u{np.dtype(self.dtype).itemsize}"), (ENDS, "<u8")))
        self.append(TOKENS, tokens)
        self.append(ENDS, ends + np.uint64(self.counts["tokens"]))
        self.counts = {name: value + about["counts"][name] for name, value in self.counts.items()}
        self.open_document = self.open_document if about["open"] is None else about["open"]

    def finish(self, whole: bool) -> dict[str, Any]:
        """Return the values of shard.json; the files are on the disk after this."""
        if self.open_document and whole:
            self.counts["documents"] += 1
            self.append(ENDS, np.array([self.counts["tokens"]], dtype="<u8"))
        about = {"version": VERSION, "dtype": self.dtype, "counts": self.counts,
                 "tokenizer": self.tokenizer.digest(), "content": self.sync()}
        return about if whole else about | {"open": self.open_document}


def storage_call(operation: str, path: Path, act: Any) -> Any:
    """One counted disk operation of a stream."""
    return storage.perform(operation, path, lambda: act(path))
