"""`regard course` on the command line."""

import json

import pytest

from regard.cli import main
from tests.course.planted import HERE


def run(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(["course", *map(str, words)])
        raise SystemExit(0)
    out, err = capsys.readouterr()
    return end.value.code, out, err


def test_list_and_show_tell_of_every_exercise(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0 and len(out.splitlines()) == 12 and "lecture 3  a weighted average of the values: attention" in out
    assert len(json.loads(run(capsys, "list", "--json")[1])) == 12
    assert "def combine(first: Step" in run(capsys, "show", "scan")[1]
    code, _, err = run(capsys, "show", "scam")
    assert code == 1 and err == "regard: scam is no exercise (there are: " + err.partition("there are: ")[2]


def test_from_stubs_to_a_graded_file(capsys, tmp_path):
    folder = tmp_path / "mine"
    code, out, _ = run(capsys, "new", folder)
    assert code == 0 and "wrote 13 files" in out
    code, _, err = run(capsys, "new", folder)
    assert code == 1 and "exists already" in err and len(err.splitlines()) == 1
    bug = (HERE / "bugs" / "08_heads" / "mask_upside_down.py").read_text()
    (folder / "08_heads.py").write_text(bug)

    code, out, _ = run(capsys, "check", folder / "08_heads.py")
    assert code == 1 and "your mask is upside down" in out and "✓ rows" in out
    results = tmp_path / "results.json"
    code, out, err = run(capsys, "check", folder, "--exercise", "heads", "--gradescope", results, "--nbgrader",
                         "--student", "ada")
    assert code == 0 and str(results) in err
    assert json.loads(results.read_text())["tests"][0]["tags"] == ["mask_upside_down"]
    assert json.loads(out)["grades"][0]["student"] == "ada"


def test_an_empty_submission_has_results_for_gradescope_too(capsys, tmp_path):
    (tmp_path / "homework.py").write_text("x = 1\n")
    results = tmp_path / "results" / "results.json"
    code, _, err = run(capsys, "check", tmp_path, "--gradescope", results)
    told = json.loads(results.read_text())
    assert code == 1 and len(err.splitlines()) == 1
    assert told["score"] == 0 and told["tests"] == [] and "files are named like 01_counting.py" in told["output"]


def test_lectures_and_pictures(capsys, tmp_path, monkeypatch):
    from regard.course import lecture

    code, out, _ = run(capsys, "lectures", tmp_path / "mine")
    assert code == 0 and "wrote 5 notebooks" in out and len(list((tmp_path / "mine").glob("*.ipynb"))) == 5
    toy = """# Lecture 9: a toy

```python
from regard.look.render.maps import Map
from regard.report.charts import Chart, Line
seen = Map("ab", "cd", [[1.0, 0.0], [0.5, 0.5]])
```

```python map
seen
```

```python chart
Chart("Title", "x", "y", [Line("", [1, 2], [[1.0, 2.0]])])
```
"""
    monkeypatch.setattr(lecture, "read_lectures", lambda: [lecture.Lecture("9_toy", toy)])
    for form, endings in (("svg", (".svg", ".svg")), ("png", (".png", ".png")), ("html", (".html", ".svg"))):
        code, out, err = run(capsys, "pictures", tmp_path / form, "--form", form)
        paths = [tmp_path / form / f"9-{name}{ending}" for name, ending in zip(("map", "chart"), endings, strict=True)]
        assert code == 0 and out.split() == list(map(str, paths)) and "lecture 9: a toy" in err
        assert all(path.stat().st_size > 500 for path in paths)
    code, _, err = run(capsys, "pictures", tmp_path, "--lecture", "3")
    assert code == 1 and err == "regard: --lecture 3: there are lectures 1 to 1\n"
