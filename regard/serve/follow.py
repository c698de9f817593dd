"""The logs of runs, followed as they grow: every line is read once, and where reading stopped is remembered.

A log is append-only but for one case: a run that is resumed drops the lines after its checkpoint, by putting another
file in the place of the old one. Then it is read again from its beginning, and those who follow it are told.

Others write these files. A line that is no object with a step is counted and left out; a run whose files cannot be read
is told as damaged, in one line that names no path, and the other runs are told as ever.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config import read_toml
from regard.run_folder import METRICS, SAMPLES, SETTINGS
from regard.serve.damage import Damaged, count, number, plain, reading
from regard.tasks import CARDS, USUAL

AXES = ("step", "tokens", "seconds")
QUIET = 30.0                   # seconds without a line before a run counts as stopped, or ten times its usual pause
MOST_RUNS = 500
MOST_COLUMNS = 200             # of a log; ours have about ten
BLOCK = 2**22                  # bytes read at once


class Log:
    """A file of JSON lines. `advance` reads what is new and passes on each whole line as an object."""

    def __init__(self, path: Path, take: Callable[[dict[str, Any]], None], forget: Callable[[], None]):
        self.path, self.take, self.forget = path, take, forget
        self.offset, self.file, self.rest, self.lines, self.bad = 0, (0, 0), b"", 0, 0
        self.changed = 0.0                        # when the file was last written

    def advance(self) -> bool:
        """Whether there was anything new."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            return self._again((0, 0)) if self.offset else False
        with reading(self.path.name):
            return self._read_on(now)

    def _read_on(self, now: os.stat_result) -> bool:
        replaced = self.offset and ((now.st_dev, now.st_ino) != self.file or now.st_size < self.offset)
        if replaced:
            self._again((now.st_dev, now.st_ino))
        self.file, self.changed = (now.st_dev, now.st_ino), now.st_mtime
        if now.st_size <= self.offset:
            return bool(replaced)
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            while block := file.read(BLOCK):
                self.offset += len(block)
                *whole, self.rest = (self.rest + block).split(b"\n")
                for line in whole:
                    self._line(line)
        return True

    def _line(self, line: bytes) -> None:
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):      # torn by a kill, before the run was resumed; or damaged
            values = None
        step = number(values.get("step")) if isinstance(values, dict) else None
        if step is not None and math.isfinite(step):
            self.lines += 1
            self.take(values)
        else:
            self.bad += bool(line.strip())

    def _again(self, file: tuple[int, int]) -> bool:
        self.offset, self.file, self.rest, self.lines, self.bad = 0, file, b"", 0, 0
        self.forget()
        return True


class Table:
    """Rows of numbers by column, with nothing (nan) where a row has no such number."""

    def __init__(self) -> None:
        self.columns: dict[str, array[float]] = {}
        self.rows = 0

    def add(self, row: dict[str, Any]) -> None:
        for key, each in row.items():
            name, value = plain(key), number(each)
            if value is not None:
                if name not in self.columns:
                    if len(self.columns) >= MOST_COLUMNS:
                        continue
                    self.columns[name] = array("d", [math.nan]) * self.rows
                self.columns[name].append(value)
        self.rows += 1
        for column in self.columns.values():
            if len(column) < self.rows:
                column.append(math.nan)

    def clear(self) -> None:
        self.columns.clear()
        self.rows = 0

    def column(self, name: str) -> NDArray[np.float64]:
        return np.array(self.columns.get(name, array("d", [math.nan]) * self.rows))

    @property
    def series(self) -> list[str]:
        return [name for name in self.columns if name not in AXES]


class FollowedRun:
    """A run's folder as it grows: its settings, its numbers, and what it wrote."""

    def __init__(self, id: str, path: Path, served: bool):
        self.id, self.path, self.served = id, path, served
        self.lock = threading.Lock()
        self.table, self.samples = Table(), list[dict[str, Any]]()
        self.metrics = Log(path / METRICS, self.table.add, self.table.clear)
        self.written = Log(path / SAMPLES, lambda row: self.samples.append(plain(row)), self.samples.clear)
        self._settings: tuple[float, dict[str, Any]] = (0.0, {})

    def advance(self) -> None:
        with self.lock:
            self.metrics.advance()
            self.written.advance()

    @property
    def cursor(self) -> str:
        """How far both logs are read; the step and the second of the last row tell whether it is still the same log."""
        step, seconds = (self._at(name, self.table.rows - 1) for name in ("step", "seconds"))
        return f"{self.table.rows}.{len(self.samples)}.{step}.{seconds}"

    def _at(self, name: str, row: int) -> str:
        column = self.table.columns.get(name)
        return "0" if column is None or not 0 <= row < len(column) else f"{column[row]:.3f}".replace(".", "_")

    def after(self, cursor: str) -> tuple[int, int] | None:
        """Rows and samples that come before what follows the cursor; None if it is not one of this log."""
        try:
            rows, samples, step, seconds = cursor.split(".")
            at, written = int(rows), int(samples)
        except ValueError:
            return None
        same = (step, seconds) == (self._at("step", at - 1), self._at("seconds", at - 1))
        return (at, written) if same and 0 <= at <= self.table.rows and 0 <= written <= len(self.samples) else None

    def row(self, number: int) -> dict[str, float]:
        values = {name: column[number] for name, column in self.table.columns.items()}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    # -------------------------------------------------------------------------------------- telling

    @property
    def settings(self) -> dict[str, Any]:
        with reading(SETTINGS):
            changed = os.stat(self.path / SETTINGS).st_mtime
            if changed != self._settings[0]:
                self._settings = changed, read_toml(self.path / SETTINGS)
        return self._settings[1]

    @property
    def name(self) -> str:
        return str(plain(self.path.name))

    def about(self) -> dict[str, Any]:
        """One run in a list of them; a damaged one with what is wrong in the place of how it is."""
        try:
            return self._about()
        except Damaged as damaged:
            return {"id": self.id, "name": self.name, "state": "damaged", "how": str(damaged), "served": self.served}

    def _about(self) -> dict[str, Any]:
        settings = self.settings
        self.advance()
        run, steps = settings.get("run", {}), count(settings.get("training", {}).get("steps")) or 0
        with self.lock:
            last = {name: self.row(self.table.rows - 1).get(name) for name in AXES} if self.table.rows else {}
            state, how = self.state(last.get("step") or 0, steps)
            task = plain(str(run.get("task", USUAL)))
            continues = task in CARDS and CARDS[task].continues
            return {"id": self.id, "name": self.name, "task": task, "continues": continues,
                    "family": plain(str(run.get("family", ""))), "state": state, "how": how, "served": self.served,
                    "steps": steps, "lines": self.table.rows, "bad_lines": self.metrics.bad + self.written.bad,
                    "samples": len(self.samples),
                    **{name: last.get(name) for name in AXES}, "best": self.best()}

    def best(self) -> dict[str, Any] | None:
        """The best of what validations measured: what is judged is to be high, the loss low."""
        judged = [name for name in self.table.series if name.startswith("valid_") and name != "valid_loss"]
        name = judged[0] if judged else "valid_loss"
        values = self.table.column(name)
        found = np.flatnonzero(np.isfinite(values))
        if not len(found):
            return None
        at = found[values[found].argmax() if judged else values[found].argmin()]
        return {"name": name, "value": float(values[at]), "step": float(self.table.column("step")[at])}

    def state(self, step: float, steps: int) -> tuple[str, str]:
        """finished · running · stopped, and how that is known: nobody but its log can tell."""
        if steps and step >= steps:
            return "finished", f"it has made all of its {steps:,} steps"
        if not steps and self.table.rows:
            return "finished", "it was counted in one go"
        ago = time.time() - max(self.metrics.changed, self.written.changed)
        if not self.table.rows:
            ago = time.time() - self._settings[0]
        seconds = self.table.column("seconds")[-100:]
        seconds = seconds[np.isfinite(seconds)]
        usual = float(np.median(np.diff(seconds))) if len(seconds) > 1 else 0.0
        if ago < max(QUIET, 10 * usual):
            return "running", f"its last line was written {ago:.0f} s ago"
        return "stopped", f"nothing was written for {spoken_age(ago)}, and it has made {step:,.0f} of {steps:,} steps"


def spoken_age(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


class Runs:
    """The runs that are served, and those found beside them; a new one is found when the list is asked for."""

    def __init__(self, served: dict[str, Path], folders: list[Path]):
        self.folders = folders
        self.by_path = {path.resolve(): FollowedRun(id, path, True) for id, path in served.items()}
        self.lock = threading.Lock()

    def all(self) -> list[FollowedRun]:
        with self.lock:
            for path in self._found():
                if path.resolve() not in self.by_path and len(self.by_path) < MOST_RUNS:
                    self.by_path[path.resolve()] = FollowedRun(self._free(str(plain(path.name))), path, False)
            return [run for run in self.by_path.values() if run.served or is_run(run.path)]

    def _found(self) -> Iterator[Path]:
        for folder in self.folders:
            with suppress(OSError):                              # it goes, or may not be looked into: it has no runs
                yield from sorted(path for path in folder.iterdir() if is_run(path))

    def _free(self, name: str) -> str:
        taken = {run.id for run in self.by_path.values()}
        return next(each for number in range(1, len(taken) + 3)
                    if (each := name if number == 1 else f"{name}-{number}") not in taken)

    def get(self, id: str) -> FollowedRun | None:
        return next((run for run in self.all() if run.id == id), None)

    def about(self) -> list[dict[str, Any]]:
        return [run.about() for run in self.all()]


def is_run(path: Path) -> bool:
    try:
        return (path / SETTINGS).is_file()
    except OSError:
        return False
