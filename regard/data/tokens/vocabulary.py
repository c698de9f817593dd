"""The contract of tokenizers, whatever their kind.

Text goes in, ids come out; no special token is ever added, and none is ever found in a user's text: a file
that says `<eos>` holds five ordinary characters. Ids 0 to 3 are `<pad> <bos> <eos> <unk>` everywhere.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import storage
from regard.errors import DataError
from regard.plain_files import LARGE, read_plain

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
SOURCE = "source-tokenizer.json"      # of a pair, where the source has its own
FIRST = len(SPECIALS)                 # the first id that stands for text

Ids = NDArray[np.int32]


class StreamDecoder(ABC):
    """Decodes ids one at a time; the pieces put together are what `decode` gives for all of them."""

    @abstractmethod
    def push(self, id: int) -> str:
        """The text that this id completes; empty while a character is unfinished."""

    def flush(self) -> str:
        """Return the text that was held back, as well as it can be shown."""
        return ""


class Tokenizer(ABC):
    """Text to ids and back. `lossless` says that any text at all comes back exactly as it was."""

    kind: str
    lossless: bool = False
    spaces_apart: bool = False           # a space between two words belongs to no token
    vocab_size: int
    pad, bos, eos, unk = PAD, BOS, EOS, UNK
    # Special tokens that a tokenizer of another program lacks, each with the one that it reads as, which may be itself;
    # and ids behind which no token stands, though the model that came with it has rows for them.
    missing: Mapping[int, int] = MappingProxyType({})
    unspelled: tuple[int, ...] = ()

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """The ids of a text."""

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        return [self.encode(text) for text in texts]

    def encode_lines(self, texts: Sequence[str]) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of all texts in one row, with <eos> behind each, and where each ends."""
        rows = self.encode_batch(texts)
        tokens = np.concatenate([np.zeros(0, np.int32), *(np.append(row, np.int32(EOS)) for row in rows)])
        return tokens, np.cumsum([len(row) + 1 for row in rows], dtype=np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; specials are left out."""
        stream = self.stream()
        return "".join([stream.push(int(id)) for id in ids]) + stream.flush()

    @abstractmethod
    def token(self, id: int) -> str:
        """A readable name for one id, to show to people."""

    @abstractmethod
    def stream(self, after: Iterable[int] = ()) -> StreamDecoder:
        """A decoder of ids as they come, continuing the text of the ids in `after`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The tokenizer as the value of a Hugging Face tokenizer.json."""

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"

    def digest(self) -> str:
        """A hash of everything that decides the ids."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write tokenizer.json: to this file, or into this folder."""
        path = find_file(path)
        storage.write_file(path, self.to_json())
        return path

    @staticmethod
    def load(path: str | Path) -> Tokenizer:
        """The tokenizer saved in this file or folder."""
        path = find_file(path)
        try:
            text = read_plain(path, LARGE).decode("utf-8")
        except FileNotFoundError:
            raise DataError(f"{path} does not exist: a tokenizer is saved there by training") from None
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"could not read the tokenizer {path} ({error}): restore it from a copy") from None
        return Tokenizer.from_json(text, str(path))

    @staticmethod
    def from_json(text: str, name: str = "tokenizer.json") -> Tokenizer:
        """The tokenizer written by `to_json`."""
        from regard.data.tokens.tokenizers import tokenizer_from_json

        return tokenizer_from_json(text, name)


class TokenizerBeside:
    """A tokenizer with something beside it: wherever one tokenizer is asked for, `main` speaks for both."""

    pad, bos, eos, unk = PAD, BOS, EOS, UNK

    @property
    def main(self) -> Tokenizer:
        raise NotImplementedError

    @property
    def kind(self) -> str:
        return self.main.kind

    @property
    def vocab_size(self) -> int:
        return self.main.vocab_size

    @property
    def missing(self) -> Mapping[int, int]:
        return self.main.missing

    @property
    def unspelled(self) -> tuple[int, ...]:
        return self.main.unspelled

    def token(self, id: int) -> str:
        return self.main.token(id)


@dataclass(frozen=True)
class TokenizerPair(TokenizerBeside):
    """The tokenizers of the source language and of the target, which may be the same: the target's speaks for both, as
    that is what a translator writes. In a run folder it is tokenizer.json, and a source's own is beside that."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """True if both languages have one vocabulary."""
        return self.source is self.target

    @property
    def main(self) -> Tokenizer:
        return self.target

    def digest(self) -> str:
        return hashlib.sha256(f"{self.source.digest()} {self.target.digest()}".encode()).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write tokenizer.json, and the source's own beside it."""
        written = self.target.save(path)
        if not self.shared:
            self.source.save(written.with_name(SOURCE))
        return written

    @staticmethod
    def load(path: str | Path) -> TokenizerPair:
        path = find_file(path)
        target = Tokenizer.load(path)
        beside = path.with_name(SOURCE)
        return TokenizerPair(Tokenizer.load(beside) if beside.exists() else target, target)


def find_file(path: str | Path) -> Path:
    """The tokenizer.json that is meant: this file, or the one in this folder."""
    return Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)


def check_text(text: str) -> str:
    """Refuses half surrogate pairs, which Python strings may hold but which are no characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text has half a surrogate pair (U+{ord(text[error.start]):04X}) at character "
                        f"{error.start + 1}, which is no character: mend the text") from None
    return text


def added_tokens() -> list[dict[str, Any]]:
    """The specials as Hugging Face writes them."""
    return [{"id": id, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for id, name in enumerate(SPECIALS)]


def huggingface(model: dict[str, Any], split: dict[str, Any], decoder: dict[str, Any] | None) -> dict[str, Any]:
    """A tokenizer.json from its three parts that matter here."""
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(),
            "normalizer": None, "pre_tokenizer": split, "post_processor": None, "decoder": decoder, "model": model}


def split_at(pattern: str, behavior: str, invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def word_level(tokens: Sequence[str]) -> dict[str, Any]:
    """The model part of a vocabulary that is a plain list."""
    vocab = {token: id for id, token in enumerate([*SPECIALS, *tokens])}
    return {"type": "WordLevel", "vocab": vocab, "unk_token": SPECIALS[UNK]}


def tokens_in_order(vocab: dict[str, int]) -> list[str]:
    """The tokens after the specials; refuses a vocabulary whose ids are not 0, 1, 2 ..."""
    ordered = sorted(vocab, key=vocab.__getitem__)
    if [vocab[token] for token in ordered] != list(range(len(vocab))) or tuple(ordered[:FIRST]) != SPECIALS:
        raise ValueError(f"its ids do not count from 0 beginning with {' '.join(SPECIALS)}")
    return ordered[FIRST:]
