"""SentencePiece models as the value of a tokenizer.json: pieces with their scores, and how texts are normalised before.

Such a file is a protocol buffer. Of its fields three are read: the pieces, the kind of model and the normaliser, which
is a table that tokenizers reads as it is.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.errors import DataError

LARGEST = 2**26                # bytes
PIECES, TRAINER, NORMALISER = 1, 2, 3                          # fields of the file
UNIGRAM, FROM_TEXT = 1, (1, 4)                                 # a kind of model, and types of pieces that texts have
WHOLE, COUNTED, SIZES = 0, 2, {1: 8, 5: 4}                     # kinds of values; the bytes of those of a fixed size
UNMATCHED = "no piece"         # what is unknown: spaces are marks by then, so that no text has it
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}


def load_sentence_pieces(path: Path) -> dict[str, Any]:
    """Return the value of a tokenizer.json that cuts texts as this file does."""
    try:
        return read_pieces(load_raw(path))
    except (ValueError, IndexError, AttributeError, struct.error) as error:
        raise DataError(f"could not read {path} ({error}): fetch it again") from None


def load_raw(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it is larger than {LARGEST:,} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(f"could not read {path} ({error}): fetch it again") from None


def read_pieces(raw: bytes) -> dict[str, Any]:
    vocab: list[tuple[str, float]] = [(UNMATCHED, 0.0)]
    steps: list[dict[str, Any]] = []
    for field, value in fields(raw):
        if field == PIECES:
            parts = dict(fields(value))
            if parts.get(3, 1) in FROM_TEXT:
                vocab.append((parts[1].decode(), struct.unpack("<f", parts.get(2, bytes(4)))[0]))
        elif field == TRAINER and dict(fields(value)).get(3, UNIGRAM) != UNIGRAM:
            raise ValueError("it is no unigram model")
        elif field == NORMALISER:
            steps = normaliser(dict(fields(value)))
    if len(vocab) < 2:
        raise ValueError("it has no pieces")
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": METASPACE,
            "post_processor": None, "decoder": METASPACE,
            "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False}}


def normaliser(parts: dict[int, Any]) -> list[dict[str, Any]]:
    table = parts.get(2, b"")
    steps: list[dict[str, Any]] = []
    if table:
        check_table(table)
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()})
    if not parts.get(3, 1):
        raise ValueError("it sets no space before a text")
    if parts.get(4, 1):                                        # spaces in a row count as one, those around a text not
        steps += [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
                  {"type": "Strip", "strip_left": True, "strip_right": True}]
    return steps


def check_table(table: bytes) -> None:
    """Refuse a table of characters that its reader would stumble over: a trie of 4-byte units, then UTF-8."""
    size = int.from_bytes(table[:4], "little")
    if len(table) < 4 or size % 4 or size + 4 > len(table):
        raise ValueError("its table of characters is cut off")
    table[4 + size:].decode()                                  # a UnicodeDecodeError is a ValueError


def fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field: a whole number, or bytes."""
    place = 0
    while place < len(raw):
        key, place = varint(raw, place)
        number, kind = key >> 3, key & 7
        if kind == WHOLE:
            value, place = varint(raw, place)
            yield number, value
            continue
        if kind == COUNTED:
            size, place = varint(raw, place)
        elif kind in SIZES:
            size = SIZES[kind]
        else:
            raise ValueError("it is no SentencePiece model")
        if place + size > len(raw):
            raise ValueError("it is cut off")
        yield number, raw[place:place + size]
        place += size


def varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("it is no SentencePiece model")
