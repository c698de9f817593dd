"""`regard course`: exercises on the ideas of the lectures, and a grader that says what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from regard.cli.options import JSON, print_json, tell

NAME = click.argument("name", metavar="EXERCISE")


@click.group(name="course")
def command() -> None:
    """Five lectures as notebooks, twelve exercises on their ideas, and a grader."""


@command.command("list", short_help="List the exercises.")
@JSON
def list_exercises(as_json: bool) -> None:
    """List the exercises, the lecture that each goes with, and the functions that it asks for."""
    from regard.course.syllabus import EXERCISES, POINTS

    if as_json:
        print_json([{"name": each.name, "lecture": each.lecture, "idea": each.idea, "functions": list(each.functions),
                     "points": POINTS} for each in EXERCISES.values()])
        return
    for each in EXERCISES.values():
        click.echo(f"{each.name:14} lecture {each.lecture}  {each.idea}: {', '.join(each.functions)}")


@command.command("show", short_help="Print an exercise's stub.")
@NAME
def show(name: str) -> None:
    """Print an exercise's stub: the equation, the shapes, and the functions to be written."""
    from regard.course.syllabus import find_exercise

    click.echo(find_exercise(name).stub.read_text("utf-8"), nl=False)


@command.command("new", short_help="Write the stubs and a README into a folder.")
@click.argument("folder", metavar="[DIR]", default="course", type=click.Path(path_type=Path))
@click.option("--notebooks", is_flag=True, help="Notebooks with a cell that grades, as nbgrader takes them.")
def new(folder: Path, notebooks: bool) -> None:
    """Write the twelve stubs and a README into a folder; a file that exists is never overwritten."""
    from regard.course.new_course import write_course

    written = write_course(folder, notebooks)
    click.echo(f"wrote {len(written)} files into {folder}: write the functions, then run regard course check {folder}")


@command.command("lectures", short_help="Write the notebooks of the lectures into a folder.")
@click.argument("folder", metavar="[DIR]", default="lectures", type=click.Path(path_type=Path))
def lectures(folder: Path) -> None:
    """Write the five notebooks into a folder, without outputs; a file that exists is never overwritten."""
    from regard.course.lecture import write_lectures

    written = write_lectures(folder)
    click.echo(f"wrote {len(written)} notebooks into {folder}: open them with jupyter lab {folder}")


@command.command("pictures", short_help="Run the lectures and write what their cells show.")
@click.argument("folder", metavar="[DIR]", default="pictures", type=click.Path(path_type=Path))
@click.option("--lecture", type=int, metavar="N", help="Only this one, 1 to 5.")
@click.option("--form", type=click.Choice(["svg", "png", "html"]), default="svg", show_default=True,
              help="html: an interactive page; charts become SVG.")
@click.option("--short", is_flag=True, help="Train a few steps only, to try it out: the models know nothing.")
def pictures(folder: Path, lecture: int | None, form: str, short: bool) -> None:
    """Run the cells of the lectures here and write each picture that they show into a folder, for slides."""
    from regard.course.lecture import find_lecture, read_lectures, run_lecture, write_picture

    for each in [find_lecture(lecture)] if lecture is not None else read_lectures():
        tell(f"lecture {each.number}: {each.title}")
        for picture in run_lecture(each, short):
            click.echo(write_picture(picture, folder, f".{form}"))


@command.command("check", short_help="Grade the solutions in a folder, or one file.")
@click.argument("path", metavar="[DIR|FILE|EXERCISE]", default=".", type=click.Path(path_type=Path))
@click.option("--exercise", metavar="NAME", help="Only this one; needed for a file that is not named like its stub.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=15.0, show_default=True,
              help="How long a solution may run.")
@JSON
@click.option("--nbgrader", is_flag=True, help="Print as JSON, with the fields of nbgrader's gradebook.")
@click.option("--student", metavar="ID", default="", help="The id in that JSON.  [default: the folder's name]")
@click.option("--gradescope", metavar="FILE", type=click.Path(path_type=Path),
              help="Write the results.json of a Gradescope autograder here.")
def check(path: Path, exercise: str | None, seconds: float, as_json: bool, nbgrader: bool, student: str,
          gradescope: Path | None) -> None:
    """Grade the solutions in a folder, one file, or an exercise of this folder by its name or number: every check, and
    what is wrong, in a line each.

    A solution is called, never read; each runs in a process of its own, with a limit of time. The exit code is 0 if
    every check holds; with --nbgrader or --gradescope it is 0 once all is graded.
    """
    from regard.course import score_sheet
    from regard.course.solutions import check_path
    from regard.errors import RunError

    machine = as_json or nbgrader or gradescope is not None
    try:
        sheets = check_path(path, exercise, seconds,
                            say=lambda sheet: None if machine else click.echo(sheet.text() + "\n"))
    except RunError as error:
        if gradescope is not None:                        # without the file Gradescope says that the autograder failed
            write_results(gradescope, score_sheet.nothing_for_gradescope(str(error)))
        raise
    if gradescope is not None:
        write_results(gradescope, score_sheet.as_gradescope(sheets))
        tell(f"wrote {gradescope}: {score_sheet.tell_total(sheets)}")
    if nbgrader:
        home = path.resolve()
        print_json(score_sheet.as_nbgrader(sheets, student or (home if home.is_dir() else home.parent).name))
    if as_json:
        print_json(score_sheet.as_json(sheets))
    if not machine:
        click.echo(score_sheet.tell_total(sheets))
    sys.exit(0 if nbgrader or gradescope is not None or all(sheet.passed for sheet in sheets) else 1)


def write_results(path: Path, results: dict[str, Any]) -> None:
    from regard import storage

    storage.make_folder(path.parent)
    storage.write_json(path, results)
