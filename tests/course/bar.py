"""The bar of the grader: how many planted mistakes it names, how long each takes, and whether right solutions pass.

    python -m tests.course.bar                # each in a process of its own, as a student's is; some minutes

It also asks git whether the mistakes were committed before the grader.
Exit code 0: at least 36 of the forty are named, each within 60 s, and every right solution passes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from regard.course.score_sheet import ScoreSheet
from regard.course.solutions import check_file
from regard.course.syllabus import EXERCISES
from tests.course.planted import BUGS, HERE, RIGHT
from tests.course.unseen import UNSEEN, ChangedSolution

BAR, SECONDS = 36, 60.0


def main() -> int:
    print(tell_history())
    bugs = {path: check_file(EXERCISES[path.parent.name], path) for path in BUGS}
    named = [path for path, sheet in bugs.items() if sheet.mistake == path.stem]
    for path in sorted(set(BUGS) - set(named)):
        print(f"  not named: {path.parent.name}/{path.stem}: {bugs[path].mistake}")
    print(f"planted before the grader: {len(named)} of {len(BUGS)} named; {times(list(bugs.values()))}")

    unseen = [(each, check_changed(each)) for each in UNSEEN]
    missed = [(each, sheet) for each, sheet in unseen if not is_named(each, sheet)]
    for each, sheet in missed:
        print(f"  not named: {each.exercise}: {each.new[:60]!r}: {sheet.mistake or 'it passes'}")
    print(f"written after it: {len(unseen) - len(missed)} of {len(unseen)} named; {times([own for _, own in unseen])}")

    right = {path: check_file(EXERCISES[path.stem], path) for path in RIGHT}
    passed = sum(sheet.passed for sheet in right.values())
    print(f"right in three styles: {passed} of {len(RIGHT)} pass; {times(list(right.values()))}")
    quick = all(sheet.seconds <= SECONDS for sheet in bugs.values())
    return int(not (len(named) >= BAR and quick and passed == len(RIGHT)))


def times(sheets: list[ScoreSheet]) -> str:
    seconds = sorted(sheet.seconds for sheet in sheets)
    return f"{seconds[len(seconds) // 2]:.1f} s each, {seconds[-1]:.1f} s at most"


def check_changed(each: ChangedSolution) -> ScoreSheet:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{each.exercise}.py"
        path.write_text(each.source.replace(each.old, each.new), encoding="utf-8")
        return check_file(EXERCISES[each.exercise], path)


def is_named(each: ChangedSolution, sheet: ScoreSheet) -> bool:
    """Whether the finding that the sheet is known by says what was changed."""
    said = next((found for found in sheet.failed if found.mistake == sheet.mistake), None)
    return said is not None and re.search(each.named, f"{said.mistake}: {said.message}") is not None


def tell_history() -> str:
    """Which commit has the forty mistakes, whether they changed since, and whether the grader came later."""
    root = HERE.parent.parent
    if not (root / ".git").exists():
        return "this is no clone: which was committed first cannot be asked"
    planted = ["tests/course/bugs", "tests/course/right"]

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    commits = git("log", "--format=%h", "--reverse", "--", *planted)
    grader = git("log", "--format=%h", "--reverse", "--", "regard/course/checks", "regard/course/grading.py")[0]
    later = subprocess.run(["git", "merge-base", "--is-ancestor", commits[0], grader], cwd=root).returncode == 0
    none = not git("ls-tree", "-r", "--name-only", commits[0], "regard/course/checks", "regard/course/grading.py")
    return (f"mistakes and right solutions: {commits[0]}, {len(commits) - 1} commits changed them since; "
            f"first grader: {grader}, {'after' if later else 'NOT after'} it; "
            f"{'no' if none else 'SOME'} check is in {commits[0]}")


if __name__ == "__main__":
    sys.exit(main())
