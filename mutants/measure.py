"""Which test runs which lines, and for how long, in code without a fault. It is measured once and kept.

A file of tests is measured again when it changes, or when a file of the code does that its tests run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutants.draw import PARTS, ROOT, Mutant, find_files

# The tests of each part; each of them may catch the mutants of any part whose lines it runs.
TESTS = {
    "layers": ["tests/layers", "tests/laws", "tests/contract"],
    "models": ["tests/models"],
    "kernels": ["tests/kernels"],
    "losses": ["tests/training", "tests/tasks", "tests/data/batching/test_text_batches.py",
               "tests/data/batching/test_pair_batches.py", "tests/models/test_head.py",
               "tests/kernels/test_cross_entropy.py"],
    "decoding": ["tests/decoding", "tests/test_trained.py", "tests/test_trained_translate.py",
                 "tests/look/test_attention_alignment.py"],
    "metrics": ["tests/metrics", "tests/test_trained_masked.py"],
    "splits": [f"tests/data/{name}.py" for name in
               ("batching/test_text_batches", "reading/test_corpus", "pairs/test_pair_corpus", "pairs/test_pairs",
                "pictures/test_picture_corpus", "pictures/test_pictures", "reading/test_seals",
                "batching/test_shuffle")],
    "checkpoints": ["tests/test_run_folder.py", "tests/test_storage.py", "tests/test_run_lock.py",
                    "tests/test_power_cuts.py", "tests/test_old_runs.py", "tests/training/test_training.py",
                    "tests/training/test_averaging.py", "tests/training/test_nothing_lost.py"],
    "security": ["tests/serve/test_security.py", "tests/serve/test_limits.py", "tests/serve/test_server.py",
                 "tests/serve/test_refusals.py", "tests/serve/test_damaged_runs.py", "tests/kernels/test_private.py",
                 "tests/kernels/test_compiled_code.py"],
}
# Left out: what takes long, runs in other processes, or tests what is no part.
LEFT_OUT = {f"tests/{name}.py" for name in (
    "contract/test_compiled_step", "laws/test_check", "laws/test_planted_bugs",
    "models/test_compiled_families", "models/test_ngram_command", "tasks/test_emoji_captions",
    "tasks/test_long_and_short", "tasks/test_same_marks", "training/test_curves", "soak/test_campaigns",
    "training/test_recorded_step", "training/test_report", "training/test_samples", "training/test_step")}
BUDGET, FIRST = 60.0, 5.0                # measured seconds of tests for a mutant, and of those tried first


@dataclass
class Test:
    """A test that passes without a fault."""

    name: str
    seconds: float
    setup: float                         # the longest of its file: a fixture may be made anew
    lines: dict[str, int]
    shared: dict[str, int] = field(repr=False)

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


def find_test_files(parts: Iterable[str] = TESTS, root: Path = ROOT) -> list[str]:
    """The files of tests of these parts; short ones first."""
    places = [root / place for part in parts for place in TESTS[part]]
    found = {path for place in places for path in ([place] if place.is_file() else place.glob("test_*.py"))}
    ordered = sorted(found, key=lambda path: (path.stat().st_size, path))
    return [name for path in ordered if (name := path.relative_to(root).as_posix()) not in LEFT_OUT]


def find_sources() -> set[str]:
    return {path for part in PARTS for path in find_files(part)}


def record_of(path: str, folder: Path) -> Path:
    return folder / "measured" / (path.replace("/", "-") + ".json")


def is_current(path: str, folder: Path, root: Path = ROOT) -> bool:
    record = record_of(path, folder)
    kept = json.loads(record.read_text())["of"] if record.is_file() else {}
    return bool(kept) and all(digest(root / name) == own for name, own in kept.items())


def keep(path: str, found: dict[str, Any], folder: Path, root: Path = ROOT) -> None:
    touched = {name for test in found["tests"].values() for name in test["lines"]} | set(found["shared"]) | {path}
    record = record_of(path, folder)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(found | {"of": {name: digest(root / name) for name in sorted(touched)}}))


def load_tests(folder: Path, paths: list[str]) -> list[Test]:
    """The tests that passed, of these files, where they were measured."""
    found = []
    for path in paths:
        record = record_of(path, folder)
        if not record.is_file():
            continue
        kept = json.loads(record.read_text())
        shared = {name: int(bits, 16) for name, bits in kept["shared"].items()}
        setup = max((test["setup"] for test in kept["tests"].values()), default=0.0)
        for name, test in kept["tests"].items():
            if test["outcome"] == "passed":
                lines = {key: int(bits, 16) for key, bits in test["lines"].items()}
                found.append(Test(name, test["seconds"], setup, lines, shared))
    return found


def choose(mutant: Mutant, tests: list[Test], budget: float = BUDGET) -> list[list[str]]:
    """The tests that run the changed line, in two batches: a few near and quick ones, then the others up to a budget.

    Near is a file of tests named for the module. Tests of a file stay together: its fixtures are made once.
    """
    bits = _bits(mutant.change.line, mutant.change.last)
    if not any((test.lines.get(mutant.path, 0) | test.shared.get(mutant.path, 0)) & bits for test in tests):
        bits = _bits(*mutant.change.around)              # the line came too late to be watched: the whole function
    stem = Path(mutant.path).stem

    def rank(test: Test) -> tuple[bool, bool, float, str]:
        own = test.lines.get(mutant.path, 0) & bits
        return not own, stem not in test.file, test.seconds + test.setup / 10, test.name

    running = [test for test in tests
               if (test.lines.get(mutant.path, 0) | test.shared.get(mutant.path, 0)) & bits]
    ranked = sorted(running, key=rank)
    first, rest, spent = [], [], 0.0
    for test in ranked:
        spent += test.seconds
        if spent <= FIRST or not first:
            first.append(test)
        elif spent <= budget:
            rest.append(test)
        else:
            break
    return [_together(batch) for batch in (first, rest) if batch]


def _bits(first: int, last: int) -> int:
    return (1 << last + 1) - (1 << first)


def _together(batch: list[Test]) -> list[str]:
    files = list(dict.fromkeys(test.file for test in batch))
    return [test.name for test in sorted(batch, key=lambda test: files.index(test.file))]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""
