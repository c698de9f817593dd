"""The process in which one solution is tried: `python -m regard.course.worker EXERCISE FILE RESULTS`.

A finding is written as soon as it is there, a JSON object a line, so that those before an endless loop are kept.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.course.grading import checks_of, findings
from regard.course.score_sheet import Finding
from regard.course.student import told
from regard.course.syllabus import EXERCISES

READY = "ready"                                   # written when all is imported, and the student's time begins


def load_solution(path: Path) -> dict[str, Any]:
    """Run a student's file, or the cells of a notebook, and return what it defines."""
    if path.suffix != ".ipynb":
        return runpy.run_path(str(path), run_name="student")
    names: dict[str, Any] = {"__name__": "student"}
    for number, source in enumerate(code_cells(json.loads(path.read_text("utf-8"))), 1):
        exec(compile(source, f"{path.name}, cell {number}", "exec"), names)
    return names


def code_cells(notebook: dict[str, Any]) -> Iterable[str]:
    """Yield the source of each code cell but those that grade, without the lines for the shell and for IPython."""
    for cell in notebook.get("cells", []):
        if cell["cell_type"] == "code" and not cell.get("metadata", {}).get("nbgrader", {}).get("grade"):
            lines = "".join(cell["source"]).splitlines()
            yield "\n".join("" if line.startswith(("%", "!")) else line for line in lines)


def try_solution(name: str, path: Path) -> Iterable[Finding]:
    exercise = EXERCISES[name]
    sys.path.append(str(path.parent))             # a solution may import its neighbours; it hides no module of Python
    try:
        functions = load_solution(path)
    except BaseException as error:
        first, *others = checks_of(exercise)
        words = told(error, path.name).replace("fails:", "cannot be loaded:")
        yield Finding(first.name, first.meaning, False, "not_loaded", words)
        for each in others:
            yield Finding(each.name, each.meaning, False, "not_reached", "not tried: the file cannot be loaded")
        return
    yield from findings(exercise, functions)


def main(name: str, path: str, results: str) -> None:
    checks_of(EXERCISES[name])
    with open(results, "w", encoding="utf-8") as out:
        print(json.dumps(READY), file=out, flush=True)
        for finding in try_solution(name, Path(path)):
            print(json.dumps(asdict(finding)), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
