"""Solutions of students, planted: 40 with one mistake each, and right ones in three styles.

    bugs/EXERCISE/MISTAKE.py     the file's name is the mistake's, its first line tells of it in words
    right/STYLE/EXERCISE.py      loops, vectorised, functional

They were written before the grader. It is given their functions, never their names or their source.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STUBS = HERE.parent.parent / "regard" / "course" / "stubs"
EXERCISES = [path.stem for path in sorted(STUBS.glob("[0-9]*.py"))]
STYLES = [path.name for path in sorted((HERE / "right").iterdir())]
BUGS = sorted((HERE / "bugs").rglob("*.py"))
RIGHT = sorted((HERE / "right").rglob("*.py"))


def functions_of(path: Path) -> dict[str, Any]:
    """Everything that a file defines, by name."""
    return runpy.run_path(str(path), run_name="student")
