"""Characters and bytes: the two vocabularies that need no training to speak of, as table look-ups.

`byte` is lossless. `char` is lossless for the characters seen in training; any other becomes `<unk>`.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from regard.data.tokens.vocabulary import (
    FIRST,
    SPECIALS,
    UNK,
    Ids,
    StreamDecoder,
    Tokenizer,
    check_text,
    huggingface,
    split_at,
    tokens_in_order,
    word_level,
)

EVERY_CHARACTER = r"[\s\S]"
CODES = 0x110000                       # how many code points Unicode has
UTF32 = "utf-32-le"


class CharTokenizer(Tokenizer):
    """One id for each character seen in training, the most frequent first."""

    kind = "char"

    def __init__(self, characters: Sequence[str]):
        self.characters = list(characters)
        self.vocab_size = FIRST + len(self.characters)
        self._bytes = [character.encode() for character in self.characters]
        codes = np.array([ord(character) for character in self.characters], dtype=np.int64)
        self._ids = np.full(CODES, UNK, dtype=np.int32)
        self._ids[codes] = np.arange(FIRST, self.vocab_size)
        self._codes = np.concatenate([np.zeros(FIRST, np.int64), codes]).astype("<u4")

    def encode(self, text: str) -> Ids:
        return self._ids[code_points(text)]

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        return cut_at(self.encode("".join(texts)), [len(text) for text in texts])

    def decode(self, ids: Iterable[int]) -> str:
        array = as_array(ids)
        return self._codes[array[array >= FIRST]].tobytes().decode(UTF32)

    def token(self, id: int) -> str:
        return SPECIALS[id] if id < FIRST else self.characters[id - FIRST]

    def stream(self, after: Iterable[int] = ()) -> StreamDecoder:
        return ByteStream(self._bytes)

    def to_dict(self) -> dict[str, Any]:
        return huggingface(word_level(self.characters), split_at(EVERY_CHARACTER, "Isolated"), {"type": "Fuse"})

    @staticmethod
    def from_dict(value: dict[str, Any]) -> CharTokenizer:
        return CharTokenizer(tokens_in_order(value["model"]["vocab"]))


class ByteTokenizer(Tokenizer):
    """The 256 bytes of UTF-8, after the specials."""

    kind = "byte"
    lossless = True
    vocab_size = FIRST + 256

    def encode(self, text: str) -> Ids:
        raw = np.frombuffer(check_text(text).encode(), dtype=np.uint8)
        return raw.astype(np.int32) + FIRST

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        raws = [check_text(text).encode() for text in texts]
        flat = np.frombuffer(b"".join(raws), dtype=np.uint8).astype(np.int32) + FIRST
        return cut_at(flat, [len(raw) for raw in raws])

    def decode(self, ids: Iterable[int]) -> str:
        array = as_array(ids)
        return (array[array >= FIRST] - FIRST).astype(np.uint8).tobytes().decode(errors="replace")

    def token(self, id: int) -> str:
        return SPECIALS[id] if id < FIRST else readable(bytes([id - FIRST]))

    def stream(self, after: Iterable[int] = ()) -> StreamDecoder:
        return ByteStream([bytes([value]) for value in range(256)], after)

    def to_dict(self) -> dict[str, Any]:
        vocab = {token: id for id, token in enumerate([*SPECIALS, *byte_letters()])}
        model: dict[str, Any] = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                                 "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                                 "ignore_merges": False, "vocab": vocab, "merges": []}
        return huggingface(model, BYTE_LEVEL, BYTE_LEVEL)


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


class ByteStream(StreamDecoder):
    """Joins the bytes of ids and lets out whole characters only."""

    def __init__(self, pieces: Sequence[bytes], after: Iterable[int] = ()):
        self.pieces = pieces
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for id in after:
            self.push(int(id))

    def push(self, id: int) -> str:
        return "" if id < FIRST else self.decoder.decode(self.pieces[id - FIRST])

    def flush(self) -> str:
        return self.decoder.decode(b"", final=True)


@cache
def byte_letters() -> list[str]:
    """The printable letter that stands for each byte in byte-level vocabularies (as GPT-2 has it)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters, spare = [], 256
    for value in range(256):
        letters.append(chr(value if value in plain else spare))
        spare += value not in plain
    return letters


def readable(raw: bytes) -> str:
    """Bytes as text where they are text, as <0xE2> where they are part of a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{value:02X}>" for value in raw)


def code_points(text: str) -> np.ndarray:
    """The code point of each character."""
    return np.frombuffer(check_text(text).encode(UTF32), dtype="<u4")


def as_array(ids: Iterable[int]) -> np.ndarray:
    return np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), dtype=np.int64)


def cut_at(flat: Ids, lengths: Sequence[int]) -> list[Ids]:
    """A flat array cut into consecutive parts of these lengths."""
    return [flat[start:stop] for start, stop in pairwise([0, *accumulate(lengths)])]


def train_characters(texts: Iterable[str], vocab: int | None) -> CharTokenizer:
    """Counts the characters of all the texts; the most frequent come first, then by code point."""
    counts = np.zeros(CODES, dtype=np.int64)
    for text in texts:
        found = np.bincount(code_points(text))
        counts[:len(found)] += found
    codes = np.flatnonzero(counts)
    order = codes[np.argsort(-counts[codes], kind="stable")]
    return CharTokenizer([chr(code) for code in order[:None if vocab is None else vocab - FIRST]])
