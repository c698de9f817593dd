"""The logs of runs, followed as they grow: every line is parsed once, from where the last look stopped.

A log is append-only but for one case: a run that is resumed drops the lines after its checkpoint, by putting another
file in the place of the old one. Then the log is read again from its beginning, and its followers are told.

Others write these files. A line that is no object with a step is counted and left out; a run whose files cannot be read
is listed as damaged, in one line that names no path, and the other runs are listed as ever.
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
from regard.plain_files import LARGE, open_plain, too_long
from regard.run_folder import METRICS, SAMPLES, SETTINGS
from regard.serve.damage import Damaged, count, number, plain, reading
from regard.tasks import CARDS, USUAL

AXES = ("step", "tokens", "seconds")
QUIET = 30.0                   # seconds without a line before a run counts as stopped, or ten times its usual pause
MOST_RUNS = 500
MOST_COLUMNS = 200             # of a log; ours have about ten
BLOCK = 2**22                  # bytes read at once, and of a line at most
UNENDED = b"]"                 # in the place of a longer line: no JSON, whatever follows


class Log:
    """A file of JSON lines. `advance` parses the new lines and passes on each as an object."""

    def __init__(self, path: Path, take: Callable[[dict[str, Any]], None], forget: Callable[[], None]):
        self.path, self.take, self.forget = path, take, forget
        self.offset, self.file, self.rest, self.lines, self.bad = 0, (0, 0), b"", 0, 0
        self.changed = 0.0                        # when the file was last written

    def advance(self) -> bool:
        """Pass on the new lines; return True if there was anything new."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            return self._restart((0, 0)) if self.offset else False
        with reading(self.path.name):
            return self._read_on(now)

    def _read_on(self, now: os.stat_result) -> bool:
        replaced = self.offset and ((now.st_dev, now.st_ino) != self.file or now.st_size < self.offset)
        if replaced:
            self._restart((now.st_dev, now.st_ino))
        self.file, self.changed = (now.st_dev, now.st_ino), now.st_mtime
        if now.st_size <= self.offset:
            return bool(replaced)
        if now.st_size > LARGE:                                  # it may have a length without having the bytes
            raise too_long(self.path, LARGE)
        with open_plain(self.path) as file:
            file.seek(self.offset)
            while block := file.read(BLOCK):
                self.offset += len(block)
                self._block(block)
        return True

    def _block(self, block: bytes) -> None:
        """Parse the lines that end in a block. A line without end is not kept: it is bad, once its end came."""
        *whole, rest = (self.rest + block).split(b"\n")
        self.rest = rest if len(rest) <= BLOCK else UNENDED
        for line in whole:
            self._line(line)

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

    def _restart(self, file: tuple[int, int]) -> bool:
        self.offset, self.file, self.rest, self.lines, self.bad = 0, file, b"", 0, 0
        self.forget()
        return True


class MetricsTable:
    """Rows of numbers by column, nan where a row has no such number."""

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
    """A run's folder as it grows: its settings, its numbers, and its samples."""

    def __init__(self, id: str, path: Path, served: bool):
        self.id, self.path, self.served = id, path, served
        self.lock = threading.Lock()
        self.table, self.samples = MetricsTable(), list[dict[str, Any]]()
        self.metrics = Log(path / METRICS, self.table.add, self.table.clear)
        self.written = Log(path / SAMPLES, lambda row: self.samples.append(plain(row)), self.samples.clear)
        self._settings: tuple[float, dict[str, Any]] = (0.0, {})

    def advance(self) -> None:
        with self.lock:
            self.metrics.advance()
            self.written.advance()

    @property
    def cursor(self) -> str:
        """The end of both logs so far, for `after`."""
        return self.cursor_at(self.table.rows, len(self.samples))

    def cursor_at(self, rows: int, samples: int) -> str:
        """Return the cursor after so many rows and samples.

        The step and the second of its last row tell later whether it is still the same log.
        """
        stamps = []
        for name in ("step", "seconds"):
            column = self.table.columns.get(name, ())
            stamps.append(f"{column[rows - 1]:.3f}".replace(".", "_") if 0 < rows <= len(column) else "0")
        return ".".join([str(rows), str(samples), *stamps])

    def after(self, cursor: str) -> tuple[int, int] | None:
        """Return the number of rows and of samples before the cursor; None if it is not one of this log."""
        try:
            rows, samples = map(int, cursor.split(".")[:2])
        except ValueError:
            return None
        same = cursor == self.cursor_at(rows, samples)
        return (rows, samples) if same and 0 <= rows <= self.table.rows and 0 <= samples <= len(self.samples) else None

    def row(self, number: int) -> dict[str, float]:
        values = {name: column[number] for name, column in self.table.columns.items()}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    # ----------------------------------------------------------------------------------- describing

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
        """Return the run as the list of runs has it; a damaged one with its problem."""
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
        """Return the best validation: the highest of a judged quality such as BLEU, or the lowest loss."""
        judged = [name for name in self.table.series if name.startswith("valid_") and name != "valid_loss"]
        name = judged[0] if judged else "valid_loss"
        values = self.table.column(name)
        rows = np.flatnonzero(np.isfinite(values))
        if not len(rows):
            return None
        best = rows[values[rows].argmax() if judged else values[rows].argmin()]
        return {"name": name, "value": float(values[best]), "step": float(self.table.column("step")[best])}

    def state(self, step: float, steps: int) -> tuple[str, str]:
        """Return finished, running or stopped, and how the log shows it."""
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
    """The runs that are served, and those in their folders; new ones are looked for with each list."""

    def __init__(self, served: dict[str, Path], folders: list[Path]):
        self.folders = folders
        self.by_path = {path.resolve(): FollowedRun(id, path, True) for id, path in served.items()}
        self.lock = threading.Lock()

    def all(self) -> list[FollowedRun]:
        with self.lock:
            for path in self._in_folders():
                if path.resolve() not in self.by_path and len(self.by_path) < MOST_RUNS:
                    self.by_path[path.resolve()] = FollowedRun(self._free_id(str(plain(path.name))), path, False)
            return [run for run in self.by_path.values() if run.served or is_run(run.path)]

    def _in_folders(self) -> Iterator[Path]:
        for folder in self.folders:
            with suppress(OSError):                              # it goes, or may not be looked into: it has no runs
                yield from sorted(path for path in folder.iterdir() if is_run(path))

    def _free_id(self, name: str) -> str:
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
