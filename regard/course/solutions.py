"""Solutions in files: each is tried in a process of its own, with a limit of time; whatever happens there is one line.

An endless loop, a crash, `exit`, a flood of prints: the process is ended, and the score sheet says where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from regard.course.score_sheet import Finding, ScoreSheet
from regard.course.syllabus import EXERCISES, CourseExercise, find_exercise
from regard.errors import DataError, RunError

SECONDS = 15.0                                    # for the student's code
TO_START = 40.0                                   # for importing torch, on a slow and busy machine
KEPT = 2000                                       # characters of what is printed
NAMES = {name for each in EXERCISES for number, _, idea in (each.partition("_"),)
         for name in (each, number, number.lstrip("0"), idea)}
MOST_BYTES = 10_000_000                           # of a solution


def check_path(
    path: Path, only: str | None = None, seconds: float = SECONDS,
    say: Callable[[ScoreSheet], None] = lambda sheet: None,
) -> list[ScoreSheet]:
    """Try the solution in a file, or every one in a folder, and return their score sheets in the course's order."""
    solutions = find_solutions(path, only)
    with ThreadPoolExecutor(max_workers=max(1, min(4, (os.cpu_count() or 1)))) as pool:
        waiting = [pool.submit(check_file, exercise, file, seconds) for exercise, file in solutions]
        sheets = []
        for each in waiting:
            sheets.append(each.result())
            say(sheets[-1])
    return sheets


def find_solutions(path: Path, only: str | None = None) -> list[tuple[CourseExercise, Path | None]]:
    """Return each exercise with its file; in a folder, those that are missing are of the course too.

    Where nothing has this name, but an exercise does, that exercise of this folder is meant.
    """
    if not path.exists() and path.name in NAMES:
        path, only = path.parent, path.name
    if path.is_file():
        return [(find_exercise(only or path.stem), path)]
    if not path.is_dir():
        raise DataError(f"{path}: there is no such file or folder; `regard course new {path}` makes one")
    wanted = [find_exercise(only)] if only else list(EXERCISES.values())
    found = [(each, next((path / f"{each.name}{suffix}" for suffix in (".py", ".ipynb")
                          if (path / f"{each.name}{suffix}").is_file()), None)) for each in wanted]
    if not any(file for _, file in found):
        below = next((each.parent for each in sorted(path.glob(f"*/{wanted[0].name}.*"))), None)
        cure = f"; {below} does: `regard course check {below}`" if below else ", as `regard course new` does"
        raise RunError(f"{path} holds no solution: files are named like {wanted[0].name}.py{cure}")
    return found


def check_file(exercise: CourseExercise, path: Path | None, seconds: float = SECONDS) -> ScoreSheet:
    """Try one solution in a process of its own."""
    if path is None:
        return ScoreSheet(exercise.name, [Finding("runs", "", False, "not_handed_in", "there is no "
            f"{exercise.name}.py")])
    if path.stat().st_size > MOST_BYTES:
        return ScoreSheet(exercise.name, [Finding("runs", "", False, "not_loaded", f"{path.name} has more than 10 MB")])
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="regard-course-") as folder:
        results = Path(folder) / "results"
        process = start(exercise, path.resolve(), results)
        printed: list[str] = []
        reader = threading.Thread(target=keep_beginning, args=(process, printed), daemon=True)
        reader.start()
        ended = wait(process, results, seconds)
        reader.join(1.0)                          # what it started itself may hold its output open for longer
        findings = read_findings(results)
    sheet = ScoreSheet(exercise.name, findings, "".join(printed).strip()[:KEPT], time.monotonic() - began)
    complete_findings(sheet, exercise, ended)
    return sheet


def start(exercise: CourseExercise, path: Path, results: Path) -> subprocess.Popen[bytes]:
    home = str(Path(__file__).resolve().parents[2])
    places = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "regard.course.worker", exercise.name, str(path), str(results)], cwd=path.parent,
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True)


def keep_beginning(process: subprocess.Popen[bytes], printed: list[str]) -> None:
    """Read what a process prints to its end, and keep the beginning: a flood fills neither pipe, memory nor disk."""
    assert process.stdout is not None
    left = KEPT
    with contextlib.suppress(ValueError, OSError):            # it was closed
        while piece := process.stdout.read1(65536):           # type: ignore[attr-defined]
            if left > 0:
                printed.append(piece[:left].decode("utf-8", "replace"))
                left -= len(piece)


def wait(process: subprocess.Popen[bytes], results: Path, seconds: float) -> tuple[str, str] | None:
    """Wait for the end, or bring it about; return the mistake and a line if it did not come to its own end."""
    if not wait_until_ready(process, results):
        end(process)
        return "not_started", f"it could not be tried: this machine took more than {TO_START:g} s to start Python"
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        end(process)
        return "too_slow", (f"it ran for more than {seconds:g} s, {{where}}, and was ended: is there a loop that never "
                            "stops?")
    end(process)
    return None if code == 0 else ("ended", f"it ended the program ({tell_exit(code)}), {{where}}")


def wait_until_ready(process: subprocess.Popen[bytes], results: Path) -> bool:
    until = time.monotonic() + TO_START
    while time.monotonic() < until:
        if process.poll() is not None or (results.is_file() and results.stat().st_size):
            return True
        time.sleep(0.02)
    return False


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and, where there are process groups, all that it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()


def tell_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"{name}: too much memory?" if name == "SIGKILL" else name


def read_findings(results: Path) -> list[Finding]:
    """Return the findings that were written in full."""
    lines = results.read_text("utf-8").split("\n")[1:-1] if results.is_file() else []
    return [Finding(**json.loads(line)) for line in lines]


def complete_findings(sheet: ScoreSheet, exercise: CourseExercise, end: tuple[str, str] | None) -> None:
    """Fill in the checks that were not reached; the first of them tells how the process ended."""
    from regard.course.grading import checks_of

    names = {each.check for each in sheet.findings}
    missing = [check for check in checks_of(exercise) if check.name not in names]
    if not missing:
        return
    mistake, why = end or ("ended", "it ended the program (exit code 0), {where}")
    why = why.replace("{where}", f"in the check `{missing[0].name}`")
    first = Finding(missing[0].name, missing[0].meaning, False, mistake, why)
    sheet.findings.append(first)
    sheet.findings += [Finding(each.name, each.meaning, False, "not_reached", "not tried: it did not come so far")
                       for each in missing[1:]]
