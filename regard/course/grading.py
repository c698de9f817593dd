"""Grading one solution: an exercise's checks in turn, each passed or failed with the mistake's name and one line.

A check judges by behaviour: it calls the student's functions and looks at what they return. No source is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from regard.course.score_sheet import Finding, ScoreSheet
from regard.course.student import Slip, Student
from regard.course.syllabus import CourseExercise

RUNS = "runs"                                     # the first check of each exercise


@dataclass(frozen=True)
class CourseCheck:
    """One thing to be shown of a solution: its name, and a function whose docstring says it in a sentence."""

    name: str
    test: Callable[[Student], None]

    @property
    def meaning(self) -> str:
        return " ".join((self.test.__doc__ or "").split()).removesuffix(".")


def checks_of(exercise: CourseExercise) -> list[CourseCheck]:
    """Return the exercise's checks, `runs` first."""
    return [CourseCheck(name, test) for name, test in import_module(exercise.checks).CHECKS.items()]


def grade(exercise: CourseExercise, functions: Mapping[str, Any]) -> ScoreSheet:
    """Try every check of an exercise on the functions of a solution."""
    return ScoreSheet(exercise.name, list(findings(exercise, functions)))


def findings(exercise: CourseExercise, functions: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield each check's outcome. If the first fails there is nothing to look at, and the others fail unseen."""
    student, broken = Student(functions), False
    for check in checks_of(exercise):
        if broken:
            yield Finding(check.name, check.meaning, False, "not_reached", "not tried: it does not run yet")
            continue
        finding = try_check(check, student)
        yield finding
        broken = check.name == RUNS and not finding.passed


def try_check(check: CourseCheck, student: Student) -> Finding:
    began = time.perf_counter()
    torch.manual_seed(0)
    mistake = message = ""
    try:
        check.test(student)
    except Slip as found:
        mistake, message = found.name, found.message
    return Finding(check.name, check.meaning, not mistake, mistake, message, round(time.perf_counter() - began, 3))
