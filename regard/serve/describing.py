"""What a run's folder tells of its model without torch: parameters, vocabulary, steps, a text to begin with."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.run_folder import SAMPLES

LONGEST_SAMPLE = 10_000_000
EXAMPLE = 400                    # characters
EXAMPLES = {"lm": "Once upon a time", "masked": "Once upon a ___.", "translate": "", "summarise": "",
            "caption": "shapes-1"}
PICTURES = tuple(f"shapes-{number}" for number in range(1, 7))     # of the embedded corpus, to begin with


def count_parameters(weights: Path) -> int:
    """All numbers that were learned, from the header of the file alone."""
    with weights.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(size, 100_000_000)))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            count = 1
            for side in tensor["shape"]:
                count *= side
            total += count
    return total


def written_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def vocabulary_size(path: Path) -> int:
    from regard.data.tokens.vocabulary import Tokenizer

    return Tokenizer.load(path).vocab_size


def last_step(metrics: Path) -> int:
    """The last step that was written down; 0 where none was."""
    try:
        with metrics.open("rb") as file:
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


def examples_of(tables: dict[str, dict[str, Any]], task: str) -> list[str]:
    """More to try: pictures that the server draws, or the prompts of the embedded corpus that the run learned from."""
    from regard.data import embedded

    files = [str(name) for name in tables.get("data", {}).get("files", [])]
    if task == "lm" and len(files) == 1 and files[0] in embedded.CORPORA:
        return list(embedded.CORPORA[files[0]].prompts)
    return list(PICTURES) if task == "caption" else []


def example_of(folder: Path, tables: dict[str, dict[str, Any]], task: str) -> str:
    """A text to begin with that the model did not learn from: of its own samples, or of the corpus, if it is ours."""
    from regard.data import embedded

    of_words = tables.get("tokenizer", {}).get("kind") in ("word", "whitespace")
    if sampled := sample_of(folder / SAMPLES, task, between=" " if of_words else ""):
        return sampled
    files = tables.get("data", {}).get("files", [])
    name = str(files[0]) if files else ""
    if name in embedded.CORPORA and task in ("lm", "masked"):
        return next(embedded.lines(name, "valid"))
    if name in embedded.PAIRED and task in ("translate", "summarise"):
        pair = next(iter(embedded.pairs(name, "valid")))
        return pair.target if reversed_pair(tables, name) else pair.source
    return EXAMPLES.get(task, "")


def sample_of(path: Path, task: str, between: str) -> str:
    """The held-out text of which the run wrote its samples, a language model's in two parts; empty if there is none."""
    try:
        with path.open("rb") as file:
            row = json.loads(file.readline(LONGEST_SAMPLE))
        text = str(row["prompt"]) + (between + str(row["reference"]) if task == "lm" else "")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return text[:EXAMPLE]


def reversed_pair(tables: dict[str, dict[str, Any]], name: str) -> bool:
    from regard.data import embedded

    return str(tables["data"].get("langs", "")) == "-".join(reversed(embedded.PAIRED[name].languages))
