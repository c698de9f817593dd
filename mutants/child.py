"""pytest in a forked process. The parent has imported torch and pytest, but not regard: a child starts in no time.

A child measures the tests of a file, or runs the tests that were chosen for a mutant until the first one fails.
A test that takes ten times as long as it should is stopped by the alarm clock, which ends the child.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from mutants.copies import Copy

PRELOADED = ("numpy", "torch", "torch.utils.checkpoint", "torch._dynamo", "hypothesis", "_hypothesis_pytestplugin",
             "tokenizers", "safetensors.torch", "click.testing", "rich.console", "PIL.Image", "sacrebleu", "polib",
             "matplotlib.figure", "fastapi.testclient", "uvicorn", "pyarrow.parquet", "rouge_score.rouge_scorer",
             "schemathesis", "openai")
ARGUMENTS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:schemathesis", "--no-header", "--tb=line"]
PATIENCE, LEAST = 10, 30.0               # a test may take ten times its usual time, and half a minute
BETWEEN = 300.0                          # seconds for imports, and for what is taken down at the end
ENOUGH = 500                             # lines of a function that are watched in one test
LONGEST = 60.0                           # seconds that the tests of one file are measured for: of more, a sample
Limit = Callable[[str], float]           # seconds that a test may take, by its id


def preload() -> None:
    """What every test imports, but nothing of regard."""
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    assert "regard" not in sys.modules


def start(copy: Copy, work: Callable[[], Any]) -> int:
    """Fork a process that works in a copy and writes what it found as JSON; gives its number."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        _enter(copy)
        copy.result.write_text(json.dumps(work()))
        code = 0
    finally:
        os._exit(code)


def _enter(copy: Copy) -> None:
    os.setpgid(0, 0)
    output = os.open(copy.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(copy.tree)
    sys.path[0] = str(copy.tree)
    cache = copy.kept if copy.planted is None else copy.cache
    os.environ |= {"PYTHONPATH": str(copy.tree), "REGARD_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": "1",
                   "OMP_NUM_THREADS": "1"}
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


# --------------------------------------------------------------------------------------------- one mutant


class Until:
    """Runs the chosen tests in their order, each under an alarm clock, and remembers the first that failed."""

    def __init__(self, chosen: list[str], limit: Limit):
        self.rank, self.limit = {name: rank for rank, name in enumerate(chosen)}, limit
        self.failed, self.why, self.ran = "", "", 0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.rank), key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_REAL, self.limit(nodeid))
        self.ran += 1

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_REAL, BETWEEN)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed, self.why = report.nodeid, _last_line(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed, self.why = report.nodeid, _last_line(report)


def run_chosen(batches: list[list[str]], limit: Limit, tmp: Path) -> dict[str, Any]:
    """The first test that fails, batch after batch: {failed, why, ran}; `failed` is empty where all pass."""
    ran = 0
    for chosen in batches:
        until = Until(chosen, limit)
        files = list(dict.fromkeys(name.partition("::")[0] for name in chosen))
        signal.setitimer(signal.ITIMER_REAL, BETWEEN)
        code = pytest.main([*ARGUMENTS, "-x", f"--basetemp={tmp}", *files], plugins=[until])
        signal.setitimer(signal.ITIMER_REAL, 0)
        ran += until.ran
        if until.failed or code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return {"failed": until.failed or f"pytest ended with {int(code)}", "why": until.why, "ran": ran}
    return {"failed": "", "why": "", "ran": ran}


def _last_line(report: Any) -> str:
    lines = str(report.longrepr).strip().splitlines() or [""]
    return lines[-1][:200]


# --------------------------------------------------------------------------------------------- a file of tests


class Lines:
    """Which lines of `files` run, by sys.settrace. A function that has run often is watched no more."""

    def __init__(self, tree: Path, files: set[str]):
        self.names = {str(tree / path): path for path in files}
        self.codes: dict[int, CodeType] = {}                 # by address, as the hash of a code object is slow
        self.seen: dict[int, set[int]] = {}
        self.events: Counter[int] = Counter()

    def start(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> dict[str, str]:
        """Of each file, the lines as the bits of a number, in hexadecimal."""
        sys.settrace(None)
        threading.settrace(None)                                      # type: ignore[arg-type]
        found: dict[str, int] = {}
        for address, lines in self.seen.items():
            name = self.names[self.codes[address].co_filename]
            for line in lines:
                found[name] = found.get(name, 0) | 1 << line
        self.seen, self.events = {}, Counter()
        return {name: f"{bits:x}" for name, bits in found.items()}

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self.names:
            return None
        address = id(code)
        if self.events[address] > ENOUGH:
            return None
        self.codes[address] = code
        self.seen.setdefault(address, {code.co_firstlineno})
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        address = id(frame.f_code)
        self.events[address] += 1
        if event == "line" and address in self.seen:
            self.seen[address].add(frame.f_lineno)
        if self.events[address] > ENOUGH:
            frame.f_trace_lines = False
        return self._line


class Measuring:
    """The seconds, the outcome and the lines of every test; what a fixture runs counts for every test of the file."""

    def __init__(self, lines: Lines):
        self.lines = lines
        self.tests: dict[str, dict[str, Any]] = {}
        self.shared: dict[str, int] = {}
        self.spent, self.session = 0.0, None

    def pytest_sessionstart(self, session: Any) -> None:
        self.session = session

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: hashlib.sha256(item.nodeid.encode()).digest())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        self.tests[item.nodeid] = {"seconds": 0.0, "setup": 0.0, "outcome": "passed",
                                   "lines": {}}
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: Any) -> Any:
        began = processor_seconds()
        self.lines.start()
        try:
            return (yield)
        finally:
            self.tests[item.nodeid]["setup"] = processor_seconds() - began
            for name, bits in self.lines.stop().items():
                self.shared[name] = self.shared.get(name, 0) | int(bits, 16)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        began = processor_seconds()
        self.lines.start()
        try:
            return (yield)
        finally:
            self.tests[item.nodeid]["seconds"] = processor_seconds() - began
            self.tests[item.nodeid]["lines"] = self.lines.stop()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome != "passed":
            self.tests[report.nodeid]["outcome"] = report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.spent += self.tests[nodeid]["seconds"]                      # without what its fixtures took
        if self.spent > LONGEST and self.session is not None:
            self.session.shouldstop = "enough of this file is measured"


def processor_seconds() -> float:
    """Of this process and of those that it waited for: what else the machine does is no part of it."""
    times = os.times()
    return round(times.user + times.system + times.children_user + times.children_system, 3)


def measure_file(path: str, tree: Path, files: set[str], tmp: Path) -> dict[str, Any]:
    """{tests, shared} of one file of tests."""
    plugin = Measuring(Lines(tree, files))
    sys.dont_write_bytecode = False                      # pytest keeps the tests that it has rewritten
    pytest.main([*ARGUMENTS, f"--basetemp={tmp}", path], plugins=[plugin])
    return {"tests": plugin.tests, "shared": {name: f"{bits:x}" for name, bits in plugin.shared.items()}}
