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
