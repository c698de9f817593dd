"""Write the notebooks of the lectures, run each from top to bottom, and keep what they show.

    python -m notebooks.run                      # all five; build/notebooks has them with their outputs
    python -m notebooks.run --lecture 3 --short  # one, with a few steps of training
    python -m notebooks.run --write              # only write notebooks/*.ipynb anew, without outputs

`make notebooks` does the first.
"""

from __future__ import annotations

import argparse
import base64
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from regard.course.lecture import SHORT, Lecture, as_text, find_lecture, read_lectures

HERE = Path(__file__).parent
BUILT = HERE.parent / "build" / "notebooks"
MINUTES = 5                                       # that a notebook may take, on two cores
ENDINGS = {"image/svg+xml": ".svg", "image/png": ".png", "text/html": ".html"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lecture", type=int, help="only this one, 1 to 5")
    parser.add_argument("--short", action="store_true", help="few steps: all runs, nothing is learned")
    parser.add_argument("--write", action="store_true", help="write notebooks/*.ipynb, and run none")
    given = parser.parse_args()
    lectures = [find_lecture(given.lecture)] if given.lecture else read_lectures()
    if given.write:
        for lecture in lectures:
            (HERE / f"{lecture.name}.ipynb").write_text(as_text(lecture), encoding="utf-8")
        return 0
    late = 0
    for lecture in lectures:
        began, cpu = time.perf_counter(), os.times()
        done = execute(lecture, given.short)
        seconds, used = time.perf_counter() - began, os.times()
        pictures = keep(lecture, done, BUILT)
        late += seconds > 60 * MINUTES
        print(f"{lecture.name:16} {seconds:4.0f} s, {children(used) - children(cpu):4.0f} s of processor · "
              f"{len(pictures)} pictures · {BUILT / lecture.name}.ipynb", flush=True)
    if late:
        print(f"{late} took longer than {MINUTES} minutes", file=sys.stderr)
    return int(bool(late))


def children(times: os.times_result) -> float:
    """Seconds of processor that ended processes of this one have used."""
    return times.children_user + times.children_system


def execute(lecture: Lecture, short: bool = False, kernel: Any = None) -> Any:
    """Run a lecture's notebook and return it with its outputs; a cell that fails raises CellExecutionError.

    `kernel` is one that runs already, whose names are forgotten first; without one, a new kernel is started and ended.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(as_text(lecture), as_version=4)
    nbformat.validate(notebook)
    before = nbformat.v4.new_code_cell(f"%reset -f\n__import__('os').environ['{SHORT}'] = '{'1' if short else ''}'")
    notebook.cells.insert(0, before)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, km=kernel, timeout=None, resources={"metadata": {"path": folder}})
        client.execute()
    del notebook.cells[0]
    return notebook


def shown_by(lecture: Lecture, done: Any) -> dict[str, dict[str, str]]:
    """What the named cells of an executed notebook show: by name, the data of the result by its kind."""
    found = {}
    for asked, cell in zip(lecture.cells, done.cells, strict=True):
        if asked.picture:
            results = [each.data for each in cell.outputs if each.output_type == "execute_result"]
            found[f"{lecture.number}-{asked.picture}"] = dict(results[-1]) if results else {}
    return found


def keep(lecture: Lecture, done: Any, folder: Path) -> list[Path]:
    """Write the executed notebook and its pictures."""
    import nbformat

    pictures = folder / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    nbformat.write(done, folder / f"{lecture.name}.ipynb")
    written = []
    for name, data in shown_by(lecture, done).items():
        kind = next(kind for kind in ENDINGS if kind in data)
        path = pictures / f"{name}{ENDINGS[kind]}"
        path.write_bytes(base64.b64decode(data[kind]) if kind == "image/png" else data[kind].encode())
        written.append(path)
    return written


if __name__ == "__main__":
    sys.exit(main())
