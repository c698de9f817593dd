"""Counts of each unit of the measured text, which a trial stores beside its record: trials/NAME.npz.

A unit is a document, a pair, or a stretch of one long text; differences between families are paired over them
(`differences`, `metrics.text_units`). One array of counts (U, C), whose sums give the number of the table.
"""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from regard import storage
from regard.data.reading.shards import Shard
from regard.errors import RunError
from regard.metrics.resampling import Counts


def unit_bytes(shard: Shard, ends: np.ndarray, tokenizer: Any) -> np.ndarray:
    """The bytes of each unit, which together are those of the text. What is spelled is scaled: a token may hold a part
    of a character, and an unknown word has no spelling."""
    spelled = np.array([len(tokenizer.decode(shard.tokens[first:last]).encode()) for first, last in
                        pairwise([0, *ends.tolist()])], dtype=np.float64)
    return spelled * shard.counts.bytes / max(1.0, spelled.sum())


def save_units(path: Path, counts: Counts) -> None:
    held = io.BytesIO()
    np.savez_compressed(held, units=counts)
    storage.write_file(path, held.getvalue())


def load_units(path: Path) -> Counts | None:
    """The counts (U, C); None for a trial from before they were stored."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            counts = file["units"].astype(np.float64)
        if counts.ndim != 2:
            raise ValueError(f"it has {counts.ndim} dimensions, not 2")
        return counts
    except Exception as error:                      # zipfile and numpy raise many kinds for a torn file
        raise RunError(f"{path} is damaged ({error}): remove it and {path.stem}.json, and the trial is made again") \
            from None
