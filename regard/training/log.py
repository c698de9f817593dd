"""What training tells: rows in metrics.jsonl and samples.jsonl, a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from regard import storage
from regard.run_folder import parse_row, read_log


def spoken(seconds: float) -> str:
    """`75` as `1:15`, `4000` as `1:06:40`."""
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Metrics:
    """metrics.jsonl: one object a line, append-only."""

    def __init__(self, path: Path):
        self.path = path

    def row(self, values: dict[str, Any]) -> None:
        storage.append_line(self.path, json.dumps(values))

    def sync(self) -> None:
        storage.sync_file(self.path)

    def state(self) -> dict[str, Any]:
        """How long the log is and what it hashes to: a checkpoint keeps it, so that a later change is seen."""
        raw = self.path.read_bytes() if self.path.exists() else b""
        return {"bytes": len(raw), "sha256": storage.digest(raw)}

    def unchanged(self, before: dict[str, Any]) -> bool:
        """Whether the log still begins with what it was at the checkpoint that kept `before`."""
        raw = self.path.read_bytes() if self.path.exists() else b""
        return storage.digest(raw[:before["bytes"]]) == before["sha256"]

    def cut(self, last_step: int) -> int:
        """Forget rows after `last_step`: training writes them again. Gives how many lines were no rows, and are gone:
        the last one torn by a kill, or damaged ones."""
        if not self.path.exists():
            return 0
        lines = [line for line in self.path.read_bytes().split(b"\n") if line]
        rows = [(line, row) for line in lines if (row := parse_row(line)) is not None]
        storage.write_file(self.path, b"".join(line + b"\n" for line, row in rows if row["step"] <= last_step))
        return len(lines) - len(rows)


class Samples(Metrics):
    """samples.jsonl: what the model wrote at validations. Each line has what it took, so that samples stay cheap."""

    SHARE = 0.01                     # of the time since the last one is the most that another like it may take

    def __init__(self, path: Path):
        super().__init__(path)
        self.last: dict[str, Any] | None = None

    def due(self, seconds: float) -> bool:
        return self.last is None or self.last["took"] <= self.SHARE * (seconds - self.last["seconds"])

    def row(self, values: dict[str, Any]) -> None:
        super().row(values)
        self.last = {name: values[name] for name in ("seconds", "took")}

    def cut(self, last_step: int) -> int:
        damaged = super().cut(last_step)
        rows, _ = read_log(self.path)
        self.last = rows[-1] if rows and {"took", "seconds"} <= set(rows[-1]) else None
        return damaged


class Progress:
    """Shows how training goes: a bar on a terminal, else a plain line now and then."""

    PLAIN_SECONDS = 10.0

    def __init__(self, steps: int, quiet: bool = False):
        self.steps, self.quiet = steps, quiet
        self.bar: Any = None
        self.last_line = time.monotonic()
        if not quiet and sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn

            self.bar = Progress(
                TextColumn("{task.completed}/{task.total}"), BarColumn(), TextColumn("{task.description}"),
                transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=steps)

    def step(self, step: int, loss: float, rate: float, left: float) -> None:
        text = f"loss {loss:.4f} · {rate:,.0f} tokens/s · {spoken(left)} left"
        if self.bar is not None:
            self.bar.update(self.task, completed=step, description=text)
        elif not self.quiet and time.monotonic() - self.last_line > self.PLAIN_SECONDS:
            self.say(f"step {step:,}/{self.steps:,} · {text}")

    def say(self, text: str) -> None:
        if self.quiet:
            return
        self.last_line = time.monotonic()
        if self.bar is not None:
            self.bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


class TensorBoard:
    """The same rows for TensorBoard, under the run folder's `tensorboard/`."""

    def __init__(self, folder: Path):
        from regard.errors import SettingError

        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SettingError(
                "--tensorboard needs the tensorboard package: pip install 'regard[tensorboard]'") from None
        self.writer = SummaryWriter(str(folder))

    def row(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if name not in ("step", "seconds") and isinstance(value, (int, float)):
                self.writer.add_scalar(name, value, values["step"])

    def close(self) -> None:
        self.writer.close()
