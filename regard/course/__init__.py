"""The course: five lectures, twelve exercises on their ideas, and a grader that says what is wrong.

`regard course new` writes the stubs, `regard course check` grades. In a notebook:

    from regard.course import check
    check("attention", globals())        # prints what was found, returns the points
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check(exercise: str, functions: Mapping[str, Any]) -> float:
    """Grade functions of this process; print what was found and return the points.

    With no points it raises AssertionError, as nbgrader takes a cell that returns 0 for one with full credit.
    """
    from regard.course.grading import grade
    from regard.course.score_sheet import lesson
    from regard.course.syllabus import find_exercise

    sheet = grade(find_exercise(exercise), functions)
    print(sheet.text())
    if not sheet.score:
        raise AssertionError(lesson(sheet))
    return sheet.score
