"""Whatever a solution does, its score sheet comes, in time, with one line on it: loops, crashes, exits, floods."""

import json
from pathlib import Path

import pytest
import torch

from regard.course import check as check_in_a_notebook
from regard.course.new_course import write_course
from regard.course.score_sheet import as_gradescope, as_json, as_nbgrader, tell_total
from regard.course.solutions import KEPT, check_file, check_path, find_solutions
from regard.course.student import Slip, tensor
from regard.course.syllabus import EXERCISES, find_exercise
from regard.errors import DataError, RunError, SettingError
from tests.course.planted import HERE, functions_of

AVERAGE = EXERCISES["02_averaging"]
RIGHT = (HERE / "right" / "vectorised" / "02_averaging.py").read_text()


def tried(tmp_path, source, seconds=20.0, name="02_averaging.py"):
    (tmp_path / name).write_text(source)
    return check_file(AVERAGE, tmp_path / name, seconds)


def test_an_endless_loop_that_floods_is_ended_and_its_earlier_findings_are_kept(tmp_path):
    source = RIGHT.replace("def average", "def right") + (
        "\n\ndef average(x, lengths):\n    while (lengths == 0).any():\n        print('again ' * 1000)\n"
        "    return right(x, lengths)\n")
    sheet = tried(tmp_path, source, seconds=3.0)
    found = {each.check: each for each in sheet.findings}
    assert found["padding"].passed and found["any order"].passed
    assert found["empty"].mistake == "too_slow" and "more than 3 s" in found["empty"].message
    assert found["definition"].mistake == "not_reached"
    assert 0 < sheet.score < 10 and sheet.mistake == "too_slow"
    assert sheet.printed.startswith("again again") and len(sheet.printed) <= KEPT


@pytest.mark.parametrize(("source", "mistake", "words"), [
    ("import os\n\ndef average(x, lengths):\n    os._exit(0)\n", "ended", "exit code 0"),
    ("import os\nimport signal\n\ndef average(x, lengths):\n    os.kill(os.getpid(), signal.SIGSEGV)\n", "ended",
     "SIGSEGV"),
    ("raise SystemExit(3)\n", "not_loaded", "exit(3)"),
    ("def average(x, lengths)\n    return x\n", "not_loaded", "SyntaxError"),
], ids=["exit", "segfault", "exit at once", "syntax"])
def test_a_solution_that_ends_the_program_is_one_line(tmp_path, source, mistake, words):
    sheet = tried(tmp_path, source)
    assert sheet.mistake == mistake and words in sheet.failed[0].message and "\n" not in sheet.failed[0].message
    assert sheet.score == 0 and len(sheet.findings) == 7


def test_neighbours_are_found_a_file_named_like_a_module_hides_none_and_a_notebook_does_as_well(tmp_path):
    (tmp_path / "helpers.py").write_text("def at_least_one(lengths):\n    return lengths.clamp(min=1)\n")
    (tmp_path / "random.py").write_text("raise RuntimeError('this hides a module of Python')\n")
    source = RIGHT.replace("lengths.clamp(min=1)", "at_least_one(lengths)").replace(
        "import torch", "from helpers import at_least_one\nimport torch", 1)
    graded = {"cell_type": "code", "metadata": {"nbgrader": {"grade": True}}, "source": ["raise RuntimeError('no')\n"]}
    cells = [{"cell_type": "markdown", "metadata": {}, "source": "# text"},
             {"cell_type": "code", "metadata": {}, "source": ["%matplotlib inline\n", "!ls\n"]},
             {"cell_type": "code", "metadata": {}, "source": source.splitlines(True)}, graded]
    sheet = tried(tmp_path, json.dumps({"cells": cells}), name="02_averaging.ipynb")
    assert sheet.passed, sheet.text()


def test_a_folder_is_graded_in_the_order_of_the_course_and_what_is_missing_is_told(tmp_path):
    (tmp_path / "02_averaging.py").write_text(RIGHT)
    bug = HERE / "bugs" / "05_loss" / "not_shifted.py"
    (tmp_path / "05_loss.py").write_text(bug.read_text())
    seen = []
    sheets = check_path(tmp_path, say=lambda sheet: seen.append(sheet.exercise))
    assert [sheet.exercise for sheet in sheets] == seen == list(EXERCISES)
    assert {sheet.exercise for sheet in sheets if sheet.mistake == "not_handed_in"} == set(EXERCISES) - {
        "02_averaging", "05_loss"}
    assert tell_total(sheets).startswith("score 15.71 of 120: 1 of 12 ")

    told = as_gradescope(sheets)
    assert set(told) <= {"score", "execution_time", "output", "output_format", "test_output_format", "visibility",
                         "stdout_visibility", "extra_data", "tests", "leaderboard"}
    loss = told["tests"][4]
    assert set(loss) <= {"score", "max_score", "status", "name", "name_format", "number", "output", "output_format",
                         "tags", "visibility", "extra_data"}
    assert (loss["number"], loss["status"], loss["max_score"], loss["tags"]) == ("5", "failed", 10, ["not_shifted"])
    assert "position t is compared with token t" in loss["output"]
    assert sum(each["score"] for each in told["tests"]) == pytest.approx(15.71)

    grades = as_nbgrader(sheets, "ada")
    assert grades["score"] == 15.71 and len(grades["grades"]) == len(grades["comments"]) == 12
    assert set(grades["grades"][4]) == {
        "name", "notebook", "assignment", "student", "auto_score", "manual_score", "extra_credit", "max_score",
        "needs_manual_grade", "failed_tests", "cell_type"}
    assert grades["grades"][4]["auto_score"] == loss["score"] and grades["grades"][0]["failed_tests"]
    json.dumps([told, grades, as_json(sheets)])


def test_a_new_course_is_written_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "new" / "course"
    assert len(write_course(folder)) == 13
    for each in EXERCISES.values():
        assert (folder / f"{each.name}.py").read_text() == each.stub.read_text()
        assert all(f"`{name}`" in (folder / "README.md").read_text() for name in each.functions)
    (folder / "README.md").unlink()
    (folder / "07_attention.py").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        write_course(folder)
    assert (folder / "07_attention.py").read_text() == "mine" and not (folder / "README.md").exists()


def test_notebooks_are_valid_and_their_cells_are_those_of_nbgrader(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    write_course(tmp_path, notebooks=True)
    for each in EXERCISES.values():
        notebook = nbformat.read(tmp_path / f"{each.name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        text, solution, grading = notebook.cells
        assert solution.metadata.nbgrader.solution and grading.metadata.nbgrader.grade
        assert grading.metadata.nbgrader.points == 10 and text.source.startswith("# Exercise ")
        names: dict = {}
        exec(solution.source, names)
        assert all(callable(names[name]) for name in each.functions)
        # nbgrader empties these regions, and nothing else of the cell
        assert solution.source.count("### BEGIN SOLUTION\n") == each.stub.read_text().count("raise NotImplementedError")
        with pytest.raises(AssertionError, match="not written yet"):              # nbgrader: no points
            exec(grading.source, names)


def test_in_a_notebook_the_points_are_returned_and_none_raises(capsys):
    assert check_in_a_notebook("averaging", functions_of(HERE / "right" / "loops" / "02_averaging.py")) == 10
    part = check_in_a_notebook("05_loss", functions_of(HERE / "bugs" / "05_loss" / "softmax_twice.py"))
    assert 0 < part < 10 and "the softmax is taken twice" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["07_attention", "7", "07", "attention", "attention.py", "07_attention.ipynb"])
def test_an_exercise_has_several_names(name):
    assert find_exercise(name).name == "07_attention"


@pytest.mark.parametrize("name", ["averaging", "2", "02", "02_averaging"])
def test_an_exercise_of_this_folder_is_checked_by_its_name(tmp_path, monkeypatch, name):
    (tmp_path / "02_averaging.py").write_text(RIGHT)
    monkeypatch.chdir(tmp_path)
    assert find_solutions(Path(name)) == [(AVERAGE, Path("02_averaging.py"))]


def test_a_folder_above_the_solutions_names_the_one_that_holds_them(tmp_path):
    write_course(tmp_path / "mine")
    with pytest.raises(RunError, match=r"mine does: `regard course check .*mine`$"):
        check_path(tmp_path)


def test_parts_that_were_not_put_together_are_told_of():
    with pytest.raises(Slip, match=r"a list, not a tensor of \(2, 3\): make one of its parts, with torch.stack"):
        tensor([torch.ones(3, 2), torch.ones(3, 2)], (2, 3), "scan")


def test_a_syntax_error_has_its_own_line_and_no_other(tmp_path):
    message = tried(tmp_path, "import torch\n\ndef average(x, lengths)\n    return x\n").failed[0].message
    assert message == ("02_averaging.py cannot be loaded: SyntaxError: expected ':' (line 3 of 02_averaging.py)")


def test_mistakes_of_the_caller_are_one_line(tmp_path):
    with pytest.raises(SettingError, match="did you mean 07_attention"):
        find_exercise("07_atention")
    with pytest.raises(DataError, match="no such file or folder"):
        check_path(tmp_path / "nowhere")
    with pytest.raises(RunError, match="holds no solution"):
        check_path(tmp_path)
