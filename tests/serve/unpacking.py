"""Payloads as the page reads them."""

import json

import numpy as np

from regard.serve.payload import ALIGN


def unpack(message):
    """Return the header and the arrays by name, as `pack` was given them."""
    offset = 4 + int.from_bytes(message[:4], "little")
    header = json.loads(message[4:offset])
    arrays = {}
    for entry in header["arrays"]:
        size = int(np.prod(entry["shape"], dtype=np.int64))
        dtype = np.dtype(entry["dtype"]).newbyteorder("<")
        arrays[entry["name"]] = np.frombuffer(message, dtype, size, offset).reshape(entry["shape"])
        offset += size * dtype.itemsize
        offset += -offset % ALIGN
    return header, arrays
