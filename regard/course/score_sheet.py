"""Score sheets: what was found in each exercise, as text, as JSON, and as nbgrader and Gradescope take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.course.syllabus import EXERCISES, POINTS

ASSIGNMENT = "regard-course"
VAGUE = ("wrong_numbers", "wrong_text", "not_the_best", "not_a_number", "cut", "not_reached")    # effects of mistakes


@dataclass(frozen=True)
class Finding:
    """The outcome of one check. `mistake` is a name for scripts, `message` a line for the learner."""

    check: str
    meaning: str
    passed: bool
    mistake: str = ""
    message: str = ""
    seconds: float = 0.0


@dataclass
class ScoreSheet:
    """The findings in one exercise. Every check counts the same."""

    exercise: str
    findings: list[Finding] = field(default_factory=list)
    printed: str = ""                             # the beginning of what the student's code printed
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.findings)

    @property
    def failed(self) -> list[Finding]:
        return [each for each in self.findings if not each.passed]

    @property
    def mistake(self) -> str:
        """The name of the first mistake, or nothing. A check that knows a name goes before those that saw an effect."""
        named = [each.mistake for each in self.failed if each.mistake not in VAGUE]
        return (named or [each.mistake for each in self.failed] or [""])[0]

    @property
    def handed_in(self) -> bool:
        return self.mistake not in ("not_written", "not_handed_in")

    @property
    def score(self) -> float:
        held = sum(each.passed for each in self.findings)
        return round(POINTS * held / len(self.findings), 2) if self.findings else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {"exercise": self.exercise, "score": self.score, "max_score": POINTS, "passed": self.passed,
                "mistake": self.mistake, "seconds": round(self.seconds, 2), "printed": self.printed,
                "checks": [asdict(each) for each in self.findings]}

    def text(self) -> str:
        """A line for each check, and under a failed one what happened."""
        lines = [f"{self.exercise}  {self.score:g} of {POINTS} points  ({EXERCISES[self.exercise].idea})"]
        if not self.handed_in:
            return f"{lines[0]}\n  – {self.failed[0].message}"
        width = max(len(each.check) for each in self.findings)
        told: set[str] = set()
        for each in self.findings:
            lines.append(f"  {'✓' if each.passed else '✗'} {each.check:{width}}  {each.meaning}")
            if each.message and each.mistake != "not_reached":
                again = each.message in told
                told.add(each.message)
                lines.append(f"    {'':{width}}  {each.mistake}: {'as above' if again else each.message}")
        if self.printed and not self.passed:
            lines.append(f"    {'':{width}}  it printed: {self.printed[:80]!r}")
        return "\n".join(lines)


def total(sheets: Sequence[ScoreSheet]) -> float:
    return round(sum(sheet.score for sheet in sheets), 2)


def tell_total(sheets: Sequence[ScoreSheet]) -> str:
    held = sum(sheet.passed for sheet in sheets)
    return f"score {total(sheets):g} of {POINTS * len(sheets)}: {held} of {len(sheets)} hold every check"


def as_json(sheets: Sequence[ScoreSheet]) -> dict[str, Any]:
    return {"score": total(sheets), "max_score": POINTS * len(sheets), "exercises": [each.as_dict() for each in sheets]}


def lesson(sheet: ScoreSheet) -> str:
    """The distinct messages of a sheet, one a line: what a learner reads beside the score."""
    messages = dict.fromkeys(each.message for each in sheet.failed if each.mistake != "not_reached")
    return "\n".join(messages) or "every check holds"


def as_gradescope(sheets: Sequence[ScoreSheet]) -> dict[str, Any]:
    """`results.json` of a Gradescope autograder: a test for each exercise, whose scores Gradescope adds up."""
    return {
        "execution_time": round(sum(sheet.seconds for sheet in sheets), 1),
        "output": tell_total(sheets),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [{"name": sheet.exercise, "number": str(int(sheet.exercise.partition("_")[0])), "score": sheet.score,
                   "max_score": POINTS, "status": "passed" if sheet.passed else "failed", "output": lesson(sheet),
                   "output_format": "text", "visibility": "visible",
                   "tags": [] if sheet.passed else [sheet.mistake],
                   "extra_data": {"checks": [asdict(each) for each in sheet.findings]}} for sheet in sheets],
    }


def nothing_for_gradescope(why: str) -> dict[str, Any]:
    """`results.json` of a submission in which there is nothing to grade: no points, and a line for the student."""
    return {"score": 0, "output": why, "output_format": "text", "visibility": "visible", "tests": []}


def as_nbgrader(sheets: Sequence[ScoreSheet], student: str) -> dict[str, Any]:
    """A submission as nbgrader's gradebook tells of one: its scores, and a grade and a comment for each cell."""
    where = {"assignment": ASSIGNMENT, "student": student}
    return {
        "name": ASSIGNMENT, "student": student, "score": total(sheets), "max_score": POINTS * len(sheets),
        "code_score": total(sheets), "max_code_score": POINTS * len(sheets), "written_score": 0, "max_written_score": 0,
        "needs_manual_grade": False,
        "grades": [{"name": sheet.exercise, "notebook": sheet.exercise, **where, "auto_score": sheet.score,
                    "manual_score": None, "extra_credit": None, "max_score": POINTS, "needs_manual_grade": False,
                    "failed_tests": not sheet.score, "cell_type": "code"} for sheet in sheets],
        "comments": [{"name": sheet.exercise, "notebook": sheet.exercise, **where, "auto_comment": lesson(sheet),
                      "manual_comment": None} for sheet in sheets],
    }
