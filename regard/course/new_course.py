"""A new folder for a student: the twelve stubs, as files or as notebooks that nbgrader takes, and a README."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from regard import storage
from regard.course.notebook_cells import cell, notebook
from regard.course.syllabus import EXERCISES, POINTS, CourseExercise
from regard.errors import DataError

# nbgrader's student version keeps what stands around such a region; of a cell without one it would leave nothing.
UNWRITTEN = re.compile(r"^( *)raise NotImplementedError$", re.MULTILINE)
README = """# The course: twelve exercises

Each file asks for one or a few functions, in plain torch (numpy and Python lists do as well). The text at its top has
the equation and the shapes. Write the functions, then run

    regard course check                 # all of them, in this folder
    regard course check {first}

A check that fails says in one line what is wrong. The grader calls your functions and looks at what they return. It
does not read your code: any way of writing them is right that gives the right numbers.

{table}

Each exercise has {points} points.
"""


def write_course(folder: Path, notebooks: bool = False) -> list[Path]:
    """Write the stubs and a README into a folder, and return the files; none that exists is touched."""
    files = {folder / name: text for name, text in course_files(notebooks).items()}
    there = [path for path in files if path.exists()]
    if there:
        raise DataError(f"{there[0]} exists already, and {len(there) - 1} more: nothing was written. Give another "
                        "folder"
                        if len(there) > 1 else f"{there[0]} exists already: nothing was written. Give another folder")
    storage.make_folder(folder)
    for path, text in files.items():
        storage.write_file(path, text)
    return list(files)


def course_files(notebooks: bool) -> dict[str, str]:
    suffix = ".ipynb" if notebooks else ".py"
    rows = [f"| {each.name}{suffix} | {each.idea} | {', '.join(f'`{name}`' for name in each.functions)} |"
            for each in EXERCISES.values()]
    table = "\n".join(["| file | idea | functions |", "|---|---|---|", *rows])
    files = {"README.md": README.format(first=f"01_counting{suffix}", table=table, points=POINTS)}
    for each in EXERCISES.values():
        stub = each.stub.read_text("utf-8")
        files[f"{each.name}{suffix}"] = as_notebook(each, stub) if notebooks else stub
    return files


def as_notebook(exercise: CourseExercise, stub: str) -> str:
    """A notebook with the text of the stub, a cell to write the functions in, and a cell that grades them."""
    text = ast.get_docstring(ast.parse(stub)) or ""
    code = stub.partition('"""\n\n')[2].removeprefix("from __future__ import annotations\n").strip()
    code = UNWRITTEN.sub(r"\1### BEGIN SOLUTION\n\1raise NotImplementedError\n\1### END SOLUTION", code)
    grading = f'from regard.course import check\n\ncheck("{exercise.name}", globals())'
    name = exercise.name
    cells = [
        graded_cell("markdown", as_markdown(text), {"grade": False, "locked": True, "solution": False}, f"{name}-text"),
        graded_cell("code", code, {"grade": False, "locked": False, "solution": True}, f"{name}-solution"),
        graded_cell("code", grading, {"grade": True, "locked": True, "solution": False, "points": POINTS}, name),
    ]
    return json.dumps(notebook(cells), indent=1, ensure_ascii=False) + "\n"


def as_markdown(text: str) -> str:
    """The docstring of a stub, its first line as a heading; lines that are indented are code in Markdown too."""
    first, _, rest = text.partition("\n")
    return f"# {first.removesuffix('.')}\n{rest}"


def graded_cell(kind: str, source: str, grading: dict[str, Any], name: str) -> dict[str, Any]:
    """A cell that nbgrader knows by its name."""
    about = {**grading, "grade_id": name, "schema_version": 3, "task": False, "cell_type": kind}
    return cell(kind, source, {"nbgrader": about}, name)
