"""The logs of runs, followed as they grow: every line is read once, and where reading stopped is remembered.

A log is append-only but for one case: a run that is resumed drops the lines after its checkpoint, by putting another
file in the place of the old one. Then it is read again from its beginning, and those who follow it are told.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config import read_toml
from regard.errors import RegardError
from regard.run_folder import METRICS, SAMPLES, SETTINGS

AXES = ("step", "tokens", "seconds")
QUIET = 30.0                   # seconds without a line before a run counts as stopped, or ten times its usual pause
MOST_RUNS = 500
BLOCK = 2**22                  # bytes read at once


class Log:
    """A file of JSON lines. `advance` reads what is new and passes on each whole line as an object."""

    def __init__(self, path: Path, take: Callable[[dict[str, Any]], None], forget: Callable[[], None]):
        self.path, self.take, self.forget = path, take, forget
        self.offset, self.file, self.rest, self.lines = 0, (0, 0), b"", 0
        self.changed = 0.0                        # when the file was last written

    def advance(self) -> bool:
        """Whether there was anything new."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            return self._again((0, 0)) if self.offset else False
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
        except ValueError:                        # torn by a kill, before the run was resumed
            return
        if isinstance(values, dict) and isinstance(values.get("step"), int | float):
            self.lines += 1
            self.take(values)

    def _again(self, file: tuple[int, int]) -> bool:
        self.offset, self.file, self.rest, self.lines = 0, file, b"", 0
        self.forget()
        return True


class Table:
    """Rows of numbers by column, with nothing (nan) where a row has no such number."""

    def __init__(self) -> None:
        self.columns: dict[str, array[float]] = {}
        self.rows = 0

    def add(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                if name not in self.columns:
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
        self.written = Log(path / SAMPLES, self.samples.append, self.samples.clear)
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
        changed = os.stat(self.path / SETTINGS).st_mtime
        if changed != self._settings[0]:
            self._settings = changed, read_toml(self.path / SETTINGS)
        return self._settings[1]

    def about(self) -> dict[str, Any]:
        """One run in a list of them."""
        self.advance()
        run, training = self.settings.get("run", {}), self.settings.get("training", {})
        steps = training.get("steps", 0)
        with self.lock:
            last = {name: self.row(self.table.rows - 1).get(name) for name in AXES} if self.table.rows else {}
            state, how = self.state(last.get("step") or 0, steps)
            return {"id": self.id, "name": self.path.name, "task": run.get("task", "lm"),
                    "family": run.get("family", ""), "state": state, "how": how, "served": self.served, "steps": steps,
                    "lines": self.table.rows, "samples": len(self.samples),
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
            ago = time.time() - os.stat(self.path / SETTINGS).st_mtime
        seconds = self.table.column("seconds")[-100:]
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
                    self.by_path[path.resolve()] = FollowedRun(self._free(path.name), path, False)
            return [run for run in self.by_path.values() if (run.path / SETTINGS).is_file()]

    def _found(self) -> Iterator[Path]:
        for folder in self.folders:
            if folder.is_dir():
                yield from sorted(path for path in folder.iterdir() if (path / SETTINGS).is_file())

    def _free(self, name: str) -> str:
        taken = {run.id for run in self.by_path.values()}
        return next(each for number in range(1, len(taken) + 3)
                    if (each := name if number == 1 else f"{name}-{number}") not in taken)

    def get(self, id: str) -> FollowedRun | None:
        return next((run for run in self.all() if run.id == id), None)

    def about(self) -> list[dict[str, Any]]:
        told = []
        for run in self.all():
            try:
                told.append(run.about())
            except (RegardError, OSError) as error:              # a folder that goes, or is no run: the others are
                told.append({"id": run.id, "name": run.path.name, "state": "damaged", "how": str(error)})
        return told


# --------------------------------------------------------------------------------------------- decimation


def decimated(values: NDArray[np.float64], points: int) -> NDArray[np.int64]:
    """Places of at most `points` values, in order, such that the least and the greatest of every bucket are among them.

    A spike of one step is the greatest of its bucket, so it is never lost. First and last are kept too.
    """
    count = len(values)
    if count <= points:
        return np.arange(count)
    edges = np.linspace(0, count, max(1, (points - 2) // 2) + 1).astype(np.int64)
    starts = edges[:-1]
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    bucket = np.repeat(np.arange(len(starts)), np.diff(edges))
    firsts = [_first(values == extreme[bucket], bucket) for extreme in (low, high)]
    return np.unique(np.concatenate([[0, count - 1], *firsts]))


def _first(hit: NDArray[np.bool_], bucket: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first place in each bucket where it is true."""
    places = np.flatnonzero(hit)
    return places[np.unique(bucket[places], return_index=True)[1]]


def shares(
    values: NDArray[np.float64], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each chosen place the mean and the number of the values up to it since the one before: what a smoothed curve
    needs, which extremes alone would lead astray."""
    if not len(chosen):
        return np.zeros(0), np.zeros(0)
    ends = chosen + 1
    total = np.append(0.0, np.cumsum(values))[ends]
    weight = np.diff(ends, prepend=0).astype(np.float64)
    return np.diff(total, prepend=0.0) / weight, weight


def curves(
    run: FollowedRun, points: int, start: int, first: float = -math.inf, last: float = math.inf
) -> dict[str, dict[str, Any]]:
    """Every series of the run from row `start` on, between two steps, with at most so many points each."""
    axes = {name: run.table.column(name)[start:] for name in AXES}
    within = (axes["step"] >= first) & (axes["step"] <= last)
    told = {}
    for name in run.table.series:
        values = run.table.column(name)[start:]
        had = within & ~np.isnan(values)
        places = np.flatnonzero(had & np.isfinite(values))
        chosen = decimated(values[places], points)
        kept, (mean, weight) = places[chosen], shares(values[places], chosen)
        told[name] = {**{axis: _numbers(column[kept]) for axis, column in axes.items()},
                      "value": _numbers(values[kept]), "mean": _numbers(mean), "weight": _numbers(weight),
                      "count": len(places), "infinite": int(had.sum()) - len(places)}
    return told


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
