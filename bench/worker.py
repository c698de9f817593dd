"""A tool in a process of its own, which works only while it is asked something: for benches in which tools take turns.

Peers are often in another environment, with another version of everything: each runs under its own Python, and is asked
by lines of words, which it answers by lines of JSON. What it prints besides goes to a log.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def cpu() -> str:
    """What the CPU calls itself, and how many cores of it there are."""
    told = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in told.read_text().splitlines() if line.startswith("model name")
             ] if told.is_file() else []
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


class Worker:
    """The end that asks. The tool's first line is what it says of itself."""

    def __init__(self, name: str, python: str, script: str, words: Sequence[object], folder: Path, threads: int):
        self.name, self.log = name, folder / f"{name}.log"
        many = {key: str(threads) for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [python, script, "--serve", *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, text=True, env={**os.environ, **many})
        self.about = self.wait()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        """It ends when there is nothing more to read; one that is in the middle of something is not waited for."""
        if error[0] is not None:
            self.process.kill()
        self.process.communicate()

    def ask(self, *words: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)
        return self.wait()

    def wait(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            last = self.log.read_text("utf-8", "replace").strip().splitlines()[-1:]
            raise SystemExit(f"{self.name} has stopped: {''.join(last)} (with --folder, all it said is in {self.log})")
        return json.loads(line)


def answer(begin: Callable[[], tuple[Any, Callable[[list[str]], Any]]]) -> None:
    """The other end: what `begin` tells of the tool, then what it answers to each line. Answers go to what was standard
    output, whatever the tool prints to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    told, asked = begin()
    print(json.dumps(told), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(asked(line.split())), file=answers, flush=True)
