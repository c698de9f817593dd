"""Numbers for the page: a JSON header, then the arrays as they lie in memory. A million cells are a million bytes.

    4 bytes, little-endian     the length of the header, its padding included
    the header                 JSON in UTF-8, padded with spaces to a multiple of 8 (the 4 bytes included)
    the arrays                 one after another, little-endian, each beginning at a multiple of 8

    header = {"arrays": [{"name", "dtype", "shape", "scale"}, ...], and more of the caller's}

`scale` is the amount that is drawn strongest where the array holds shades, else null. A shade is of the square root of
the amount: 255 steps of the amount itself would show a row of a thousand equal weights as nothing at all.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MEDIA_TYPE = "application/octet-stream"
ALIGN = 8                       # a typed array in the browser must begin at a multiple of its item's size
DTYPES = ("uint8", "int8", "float32")


def pack(header: dict[str, Any], **arrays: ArrayLike) -> bytes:
    """Return one message of a header and named arrays. `header["scales"]`, if given, has scales of arrays by name."""
    other = dict(header)
    scales = other.pop("scales", {})
    assert "arrays" not in other, "the header's list of arrays is written here"
    blocks = {name: _plain(name, values) for name, values in arrays.items()}
    listed = [{"name": name, "dtype": block.dtype.name, "shape": list(block.shape), "scale": scales.get(name)}
              for name, block in blocks.items()]
    text = json.dumps({"arrays": listed, **other}, ensure_ascii=False, allow_nan=False).encode()
    text += b" " * (-(4 + len(text)) % ALIGN)
    parts = [len(text).to_bytes(4, "little"), text]
    for block in blocks.values():
        parts += [block.tobytes(), bytes(-block.nbytes % ALIGN)]
    return b"".join(parts)


def shade(values: ArrayLike, top: float, signed: bool) -> NDArray[Any]:
    """Return amounts as shades: uint8, 255 sqrt(min(1, v / top)); signed, int8, 127 sign(v) sqrt(min(1, |v| / top))."""
    amounts = np.asarray(values, dtype=np.float32)
    if top <= 0:                                           # nothing to see: all are zero
        return np.zeros(amounts.shape, np.int8 if signed else np.uint8)
    root = np.sqrt(np.minimum(np.abs(amounts) / np.float32(top), 1))
    if signed:
        return np.rint(127 * np.sign(amounts) * root).astype(np.int8)
    assert not (amounts < 0).any(), "an amount below zero needs signed shades"
    return np.rint(255 * root).astype(np.uint8)


def _plain(name: str, values: ArrayLike) -> NDArray[Any]:
    block = np.asarray(values)
    assert block.dtype.name in DTYPES, f"{name} is {block.dtype.name}: the page reads {', '.join(DTYPES)}"
    return np.ascontiguousarray(block, block.dtype.newbyteorder("<")).reshape(block.shape)
