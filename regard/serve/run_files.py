"""Facts of a run's files, without torch: parameters, vocabulary, steps, a text to begin with."""

from __future__ import annotations

import json
import math
from pathlib import Path

from regard.plain_files import open_plain
from regard.run_folder import SAMPLES
from regard.tasks.card import Card, Tables

LONGEST_SAMPLE = 10_000_000
EXAMPLE = 400                    # characters


def count_parameters(weights: Path) -> int:
    """Return the number of parameters, from the header of the file alone."""
    with open_plain(weights) as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(size, 100_000_000)))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def vocabulary_size(path: Path) -> int:
    from regard.data.tokens.vocabulary import Tokenizer

    return Tokenizer.load(path).vocab_size


def last_step(metrics: Path) -> int:
    """Return the last step in the log; 0 where there is none."""
    try:
        with open_plain(metrics) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return max(0, int(json.loads(line)["step"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):       # cut by the window, or damaged
            continue
    return 0


def example_of(folder: Path, tables: Tables, card: Card) -> str:
    """Return a text to begin with that the model did not learn from: of its samples, or of an embedded corpus."""
    of_words = tables.get("tokenizer", {}).get("kind") in ("word", "whitespace")
    between = (" " if of_words else "") if card.continues else None
    return sample_of(folder / SAMPLES, between) or card.find_example(tables) or card.example


def sample_of(path: Path, between: str | None) -> str:
    """Return the held-out text of the run's first sample; empty if there is none.

    With `between`, its reference follows, after that.
    """
    try:
        with open_plain(path) as file:
            row = json.loads(file.readline(LONGEST_SAMPLE))
        text = str(row["prompt"]) + ("" if between is None else between + str(row["reference"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return text[:EXAMPLE]
