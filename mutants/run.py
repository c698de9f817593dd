"""Mutants one after the other: in a copy, with the tests that run the changed line. A verdict is a line of a file.

caught          a test failed
timed out       a test took ten times its usual time: it counts as caught
not importable  the tests could not even be collected: it counts as caught
survived        every chosen test passed
untested        no test runs the line: it counts as survived
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mutants import child, measure
from mutants.copies import FOLDER, Copy
from mutants.draw import ROOT, Mutant

CAUGHT = ("caught", "timed out", "not importable")
Job = tuple[Any, Mutant | None, Callable[[Copy], Any]]          # what it is, the fault, and what to do in the copy


class Pool:
    """A few copies, each with at most one child at work."""

    def __init__(self, workers: int, folder: Path = FOLDER, root: Path = ROOT):
        self.folder, self.root = folder, root
        self.free = [Copy(number, folder, root) for number in range(workers)]
        self.busy: dict[int, tuple[Any, Copy, float]] = {}
        for copy in self.free:
            copy.refresh()

    def go_through(self, jobs: Iterator[Job]) -> Iterator[tuple[Any, Any, int, float]]:
        """(what it is, what the child found or None, how it ended, seconds) as they come."""
        try:
            waiting = True
            while waiting or self.busy:
                while waiting and self.free:
                    job = next(jobs, None)
                    if job is None:
                        waiting = False
                    else:
                        self._start(*job)
                if self.busy:
                    yield self._wait()
        finally:
            for number in self.busy:
                _end_group(number)

    def _start(self, what: Any, mutant: Mutant | None, work: Callable[[Copy], Any]) -> None:
        copy = self.free.pop()
        copy.plant(mutant)
        self.busy[child.start(copy, lambda: work(copy))] = (what, copy, time.monotonic())

    def _wait(self) -> tuple[Any, Any, int, float]:
        number, status = os.wait()
        what, copy, began = self.busy.pop(number)
        _end_group(number)
        found = json.loads(copy.result.read_text()) if copy.result.is_file() else None
        copy.plant(None)
        self.free.append(copy)
        return what, found, os.waitstatus_to_exitcode(status), time.monotonic() - began


def measure_tests(pool: Pool, paths: list[str], sources: set[str], say: Callable[[str], None]) -> None:
    """Measure each of these files of tests that has changed, or was never measured."""
    stale = [path for path in paths if not measure.is_current(path, pool.folder, pool.root)]

    def work(path: str) -> Callable[[Copy], Any]:
        return lambda copy: child.measure_file(path, copy.tree, sources, copy.tmp)

    for done, (path, found, _, seconds) in enumerate(pool.go_through((path, None, work(path)) for path in stale), 1):
        found = found or {"tests": {}, "shared": {}}                 # the process ended: its tests are left out
        measure.keep(path, found, pool.folder, pool.root)
        passed = sum(test["outcome"] == "passed" for test in found["tests"].values())
        say(f"measured {done} of {len(stale)}: {path}, {passed} of {len(found['tests'])} passed, {seconds:.0f} s")


def run_mutants(pool: Pool, mutants: list[Mutant], tests: list[measure.Test], results: Path,
                say: Callable[[str], None]) -> None:
    """Append a verdict for each mutant to `results`."""
    limits = {test.name: child.LEAST + child.PATIENCE * (test.seconds + test.setup) for test in tests}

    def work(batches: list[list[str]]) -> Callable[[Copy], Any]:
        return lambda copy: child.run_chosen(batches, lambda name: limits.get(name, child.LEAST), copy.tmp)

    jobs = ((each, each, work(measure.choose(each, tests))) for each in mutants)
    for done, (mutant, found, code, seconds) in enumerate(pool.go_through(jobs), 1):
        line = describe(mutant) | judge(found, code) | {"seconds": round(seconds, 1)}
        append(results, line)
        say(f"{done} of {len(mutants)}: {line['verdict']}, {line['place']}, {line['change']} ({seconds:.0f} s)")


def judge(found: dict[str, Any] | None, code: int) -> dict[str, Any]:
    if found is None:
        verdict = "timed out" if code == -signal.SIGALRM else "caught"
        return {"verdict": verdict, "by": "", "why": "" if verdict == "timed out" else f"the process ended with {code}"}
    if not found["failed"]:
        return {"verdict": "survived" if found["ran"] else "untested", "by": "", "why": f"{found['ran']} tests passed"}
    collected = "::" in found["failed"]
    return {"verdict": "caught" if collected else "not importable", "by": found["failed"], "why": found["why"]}


def describe(mutant: Mutant) -> dict[str, Any]:
    change = mutant.change
    return {"id": mutant.id, "part": mutant.part, "operator": change.operator,
            "place": f"{mutant.path}:{change.line}", "scope": change.scope,
            "change": f"{_short(change.before)} -> {_short(change.after)}"}


def append(results: Path, line: dict[str, Any]) -> None:
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def load_results(results: Path) -> dict[str, dict[str, Any]]:
    """The last verdict of each mutant, by its id. A last line that was cut off is left out."""
    found = {}
    for line in results.read_text("utf-8").splitlines() if results.is_file() else []:
        try:
            verdict = json.loads(line)
        except ValueError:
            continue
        found[verdict["id"]] = verdict
    return found


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 90 else f"{flat[:87]}..."


def _end_group(number: int) -> None:
    """End what the child has started and left behind."""
    try:
        os.killpg(number, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
