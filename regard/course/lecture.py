"""The five lectures: their text, as notebooks, and the pictures that their cells show.

A lecture is a Markdown file in `lectures/`. A fence of Python is a cell of code; a word behind `python` names the
picture that the cell shows. `regard course lectures` writes notebooks, `regard course pictures` runs the cells and
writes what they show. Neither needs Jupyter.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import storage
from regard.course.notebook_cells import cell, notebook
from regard.errors import DataError, SettingError

TEXTS = Path(__file__).parent / "lectures"
SHORT = "REGARD_SHORT"                            # set: a few steps of training, and nothing asserted that they teach
FENCE = re.compile(r"^```python(?: ([a-z][a-z0-9-]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class LectureCell:
    """Text, or code that may show a picture."""

    kind: str                                     # markdown · code
    source: str
    picture: str = ""                             # the picture's name


@dataclass(frozen=True)
class Lecture:
    """One lecture; `name` is also the name of its file, and of its notebook."""

    name: str
    text: str

    @property
    def number(self) -> int:
        return int(self.name.partition("_")[0])

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].partition(": ")[2]

    @property
    def cells(self) -> list[LectureCell]:
        return list(cut_cells(self.text))


@dataclass(frozen=True)
class LecturePicture:
    """The picture that a cell showed, under the cell's name: a map, a chart or a look."""

    name: str
    shown: Any


def read_lectures() -> list[Lecture]:
    """All lectures, in their order."""
    return [Lecture(path.stem, path.read_text("utf-8")) for path in sorted(TEXTS.glob("*.md"))]


def find_lecture(number: int) -> Lecture:
    for each in read_lectures():
        if each.number == number:
            return each
    raise SettingError(f"--lecture {number}: there are lectures 1 to {len(read_lectures())}")


def cut_cells(text: str) -> Iterator[LectureCell]:
    """Text and code in turns; empty text is no cell."""
    end = 0
    for fence in FENCE.finditer(text):
        yield from _prose(text[end:fence.start()])
        yield LectureCell("code", fence[2].rstrip("\n"), fence[1] or "")
        end = fence.end()
    yield from _prose(text[end:])


def _prose(text: str) -> Iterator[LectureCell]:
    if text.strip():
        yield LectureCell("markdown", text.strip())


# --------------------------------------------------------------------------------------------- as notebooks


def as_notebook(lecture: Lecture) -> dict[str, Any]:
    """A notebook without outputs. The same text gives the same notebook."""
    return notebook([cell(each.kind, each.source, {}, f"{lecture.number}-{place:02}-{each.picture or each.kind}")
                     for place, each in enumerate(lecture.cells, start=1)])


def write_lectures(folder: Path) -> list[Path]:
    """Write the notebooks into a folder, and return them; if one exists already, nothing is written."""
    files = {folder / f"{each.name}.ipynb": as_text(each) for each in read_lectures()}
    there = [path for path in files if path.exists()]
    if there:
        raise DataError(f"{there[0]} exists already: nothing was written. Give another folder")
    storage.make_folder(folder)
    for path, text in files.items():
        storage.write_file(path, text)
    return list(files)


def as_text(lecture: Lecture) -> str:
    return json.dumps(as_notebook(lecture), indent=1, ensure_ascii=False) + "\n"


# ---------------------------------------------------------------------------------------------- as pictures


def run_lecture(lecture: Lecture, short: bool = False) -> Iterator[LecturePicture]:
    """Run the cells of a lecture in this process, one after another, and yield each picture that one shows."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with _length(short):
        for each in lecture.cells:
            if each.kind == "code":
                shown = run_cell(each.source, f"<{lecture.name}>", names)
                if each.picture:
                    yield LecturePicture(f"{lecture.number}-{each.picture}", shown)


def run_cell(source: str, file: str, names: dict[str, Any]) -> Any:
    """Run a cell and return what it shows: the value of its last line, if that is an expression."""
    tree = ast.parse(source, file)
    *before, last = tree.body
    with redirect_stdout(io.StringIO()):
        if not isinstance(last, ast.Expr):
            return exec(compile(tree, file, "exec"), names)
        exec(compile(ast.Module(before, []), file, "exec"), names)
        return eval(compile(ast.Expression(last.value), file, "eval"), names)


@contextmanager
def _length(short: bool) -> Iterator[None]:
    before = os.environ.pop(SHORT, None)
    if short:
        os.environ[SHORT] = "1"
    try:
        yield
    finally:
        os.environ.pop(SHORT, None)
        if before is not None:
            os.environ[SHORT] = before


FORMS = (".svg", ".png", ".html")


def write_picture(picture: LecturePicture, folder: Path, form: str) -> Path:
    """Write a picture under its name. Of looks and maps there are pages, that answer to the pointer; not of charts."""
    from regard.look.render import files
    from regard.look.render.maps import Map
    from regard.report.charts import Chart, draw

    if form not in FORMS:
        raise SettingError(f"--form {form.removeprefix('.')}: give one of {', '.join(each[1:] for each in FORMS)}")
    shown, path = picture.shown, folder / f"{picture.name}{form}"
    if isinstance(shown, Map):
        return files.save(shown, path)
    if not isinstance(shown, Chart):
        return Path(shown.save(path))
    path = path if form != ".html" else path.with_suffix(".svg")
    storage.make_folder(folder)
    storage.write_file(path, draw(shown, path.suffix[1:]))
    return path
