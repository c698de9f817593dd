"""The lectures: notebooks that run from top to bottom, in a short form, and show what they say that they show."""

import json
from pathlib import Path

import pytest

from notebooks.run import shown_by
from regard.course import lecture as lectures
from regard.course.lecture import Lecture, as_text, cut_cells, find_lecture, read_lectures, run_lecture, write_lectures
from regard.course.syllabus import EXERCISES
from regard.errors import DataError, SettingError

LECTURES = read_lectures()
NAMES = [each.name for each in LECTURES]
COMMITTED = Path(__file__).parents[2] / "notebooks"
TOY = """# Lecture 9: a toy

Text.

```python
import os
x = [1, 2] if os.environ.get("REGARD_SHORT") else [3]
print("not shown")
```

```python numbers
x
```

More text.
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A running kernel, for all notebooks: most of what one takes is to import."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path_factory.mktemp("kernel")))
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("lecture", LECTURES, ids=NAMES)
def test_the_short_form_of_a_notebook_runs_from_top_to_bottom(lecture, kernel):
    from notebooks.run import execute

    done = execute(lecture, short=True, kernel=kernel)
    shown = shown_by(lecture, done)
    assert len(shown) >= 4
    for name, data in shown.items():
        assert "<svg" in data.get("image/svg+xml", "") or "<iframe" in data.get("text/html", ""), name
    assert not [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs
                if output.output_type == "stream" and output.name == "stderr"]


@pytest.mark.parametrize("lecture", LECTURES, ids=NAMES)
def test_the_notebook_that_is_committed_is_the_one_that_the_text_gives(lecture):
    """`python -m notebooks.run --write` writes them anew."""
    assert (COMMITTED / f"{lecture.name}.ipynb").read_text("utf-8") == as_text(lecture)


@pytest.mark.parametrize("lecture", LECTURES, ids=NAMES)
def test_a_lecture_asserts_what_it_says_and_names_its_exercises(lecture):
    code = [each.source for each in lecture.cells if each.kind == "code"]
    assert sum(source.count("assert ") for source in code) >= 10
    assert code[0].count('SHORT = bool(os.environ.get("REGARD_SHORT"))') == 1
    for each in EXERCISES.values():
        assert (f"`{each.name}`" in lecture.text) == (each.lecture == lecture.number)
    pictures = [each.picture for each in lecture.cells if each.picture]
    assert len(set(pictures)) == len(pictures)


def test_there_is_a_notebook_for_each_lecture_of_the_syllabus():
    assert [each.number for each in LECTURES] == sorted({each.lecture for each in EXERCISES.values()})


def test_text_and_code_take_turns():
    kinds = [(each.kind, each.picture) for each in cut_cells(TOY)]
    assert kinds == [("markdown", ""), ("code", ""), ("code", "numbers"), ("markdown", "")]
    assert next(cut_cells(TOY)).source == "# Lecture 9: a toy\n\nText."


@pytest.mark.parametrize(("short", "numbers"), [(True, [1, 2]), (False, [3])])
def test_a_lecture_runs_here_and_yields_what_its_cells_show(short, numbers, monkeypatch, capsys):
    monkeypatch.setenv(lectures.SHORT, "before")
    (picture,) = run_lecture(Lecture("9_toy", TOY), short)
    assert (picture.name, picture.shown) == ("9-numbers", numbers)
    assert capsys.readouterr().out == "" and lectures.os.environ[lectures.SHORT] == "before"


def test_an_assert_that_fails_ends_a_lecture():
    with pytest.raises(AssertionError):
        list(run_lecture(Lecture("9_toy", TOY.replace("x = ", "assert 1 == 2\nx = "))))


def test_notebooks_are_written_once(tmp_path):
    written = write_lectures(tmp_path / "mine")
    assert [path.name for path in written] == [f"{name}.ipynb" for name in NAMES]
    assert json.loads(written[0].read_text("utf-8"))["nbformat"] == 4
    written[0].write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        write_lectures(tmp_path / "mine")
    assert written[0].read_text() == "mine"


def test_a_lecture_that_is_not_there_is_one_line():
    with pytest.raises(SettingError, match="--lecture 9: there are lectures 1 to"):
        find_lecture(9)
