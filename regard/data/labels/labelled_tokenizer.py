"""A tokenizer and the labels that a model gives: what a run needs to read a text and to name its answer.

In a run folder the tokenizer is tokenizer.json, and the labels are labels.json beside it, in the order of their ids.
As a target label number k is k + 1: 0 is <pad>, where no label is asked for. A task may keep what its baseline learned
from the same texts there too, as arrays in baseline.safetensors: whoever scores the run later has no training texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard import storage
from regard.data.tokens.vocabulary import Tokenizer, TokenizerBeside, find_file
from regard.errors import DataError, did_you_mean
from regard.plain_files import LARGE, load_json, read_plain

LABELS, BASELINE = "labels.json", "baseline.safetensors"


@dataclass(frozen=True)
class LabelledTokenizer(TokenizerBeside):
    """The tokenizer of the texts, and the labels in the order of their ids."""

    text: Tokenizer
    labels: tuple[str, ...]
    baseline: dict[str, NDArray[Any]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def main(self) -> Tokenizer:
        return self.text

    @cached_property
    def targets(self) -> dict[str, int]:
        """The target of each label: its id and one."""
        return {label: id + 1 for id, label in enumerate(self.labels)}

    def target(self, label: str, where: str) -> int:
        """Return the target of a label; one that the model cannot give is a DataError."""
        if label not in self.targets:
            raise DataError(f"{where} has the label {label!r}, which is none of the run's {len(self.labels):,}"
                            f"{did_you_mean(label, self.labels)}: mend it, or train a new run on it")
        return self.targets[label]

    def digest(self) -> str:
        return hashlib.sha256(f"{self.text.digest()} {json.dumps(self.labels)}".encode()).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write tokenizer.json, and the labels beside it."""
        written = self.text.save(path)
        storage.write_file(written.with_name(LABELS), json.dumps({"labels": self.labels}, ensure_ascii=False) + "\n")
        if self.baseline:
            storage.write_file(written.with_name(BASELINE), save(self.baseline))
        return written

    @staticmethod
    def load(path: str | Path) -> LabelledTokenizer:
        """Return the tokenizer, the labels and the baseline saved in this folder, or beside this file."""
        path = find_file(path)
        kept = path.with_name(BASELINE)
        return LabelledTokenizer(Tokenizer.load(path), read_labels(path.with_name(LABELS)),
                                 read_baseline(kept) if kept.exists() else {})


def read_baseline(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a baseline, which are finite numbers."""
    try:
        arrays = load(read_plain(path))
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("it holds what is no finite number")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"could not read the baseline {path} ({error}): take it from a copy of the run") from None
    return arrays


def read_labels(path: Path) -> tuple[str, ...]:
    """Return the labels of a run, in the order of their ids."""
    try:
        labels = load_json(path, LARGE)["labels"]
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise ValueError("it holds no list of names")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"could not read the labels {path} ({error}): take them from a copy of the run") from None
    return tuple(labels)


def list_labels(found: Iterable[str]) -> tuple[str, ...]:
    """Return the labels in an order that depends on nothing but their names."""
    labels = tuple(sorted(set(found)))
    if len(labels) < 2:
        raise DataError(f"every text has the label {labels[0]!r}: there is nothing to tell apart; "
                        "give texts of two labels at least")
    return labels
