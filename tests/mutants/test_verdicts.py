"""Verdicts on a tiny project: a fault that a test sees, one that none can see, one without end, one that is no Python.

The faults are planted in a copy: the project itself stays as it is, and a run that is stopped goes on.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from mutants import child, measure, report, run
from mutants.draw import ROOT, Mutant
from mutants.operators import Change, find_changes

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
LITTLE = """\
import math

def double(x):
    return x + x

def largest(xs):
    best = xs[0]
    for x in xs:
        if x > best:
            best = x
    return best

def count(n):
    done = 0
    while done < n:
        done += 1
    return done

def unused(x):
    return -x
"""
TESTS = """\
from little_project import count, double, largest

def test_double():
    assert double(2) == 4

def test_largest():
    assert largest([1, 3, 2]) == 3

def test_count():
    assert count(3) == 3

def test_broken():
    assert double(1) == 3
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    (root / "little_project.py").write_text(LITTLE)
    (root / "tests").mkdir()
    (root / "tests" / "test_little_project.py").write_text(TESTS)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / ".gitignore").write_text("/build/\n__pycache__/\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.fixture(scope="module")
def pool(project):
    return run.Pool(1, project / "build" / "mutants", project)


@pytest.fixture(scope="module")
def tests(project, pool):
    paths = ["tests/test_little_project.py"]
    run.measure_tests(pool, paths, {"little_project.py"}, lambda line: None)
    return measure.load_tests(pool.folder, paths)


def mutant(before, after):
    start = LITTLE.index(before)
    line = LITTLE[:start].count("\n") + 1
    change = Change("by-hand", line, line, "", (line, line), before, after, start, start + len(before))
    return Mutant(before, "little", "little_project.py", change)


def is_running(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_line_is_known_to_be_run_by_the_tests_that_run_it_and_a_broken_test_is_not_used(tests):
    assert {test.name.partition("::")[2] for test in tests} == {"test_double", "test_largest", "test_count"}
    chosen = {before: [name.partition("::")[2] for batch in measure.choose(mutant(before, ""), tests) for name in batch]
              for before in ("x + x", "best = x", "done += 1", "-x")}
    assert chosen == {"x + x": ["test_double"], "best = x": ["test_largest"], "done += 1": ["test_count"], "-x": []}


def test_each_mutant_gets_its_verdict_and_the_project_stays_as_it_was(project, pool, tests, monkeypatch):
    monkeypatch.setattr(child, "LEAST", 2.0)
    results = project / "build" / "results.jsonl"
    planted = [mutant("x + x", "x - x"), mutant("x > best", "x >= best"), mutant("done += 1", "done += 0"),
               mutant("return x + x", "return x +"), mutant("-x", "x")]
    run.run_mutants(pool, planted, tests, results, lambda line: None)
    found = run.load_results(results)
    assert [found[each.id]["verdict"] for each in planted] == [
        "caught", "survived", "timed out", "not importable", "untested"]
    assert found["x + x"]["by"].endswith("test_double")
    assert (project / "little_project.py").read_text() == LITTLE
    assert (pool.free[0].tree / "little_project.py").read_text() == LITTLE
    with results.open("a") as file:
        file.write('{"id": "cut o')                                     # a run that was stopped while it wrote
    assert run.load_results(results) == found


def test_a_test_file_is_measured_again_when_it_or_the_code_changes(project, pool, tests):
    path = "tests/test_little_project.py"
    assert measure.is_current(path, pool.folder, project)
    (project / "little_project.py").write_text(LITTLE + "\n")
    assert not measure.is_current(path, pool.folder, project)
    (project / "little_project.py").write_text(LITTLE)
    assert measure.is_current(path, pool.folder, project)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux what is running")
def test_what_a_mutant_leaves_running_is_ended(pool):
    began = time.monotonic()
    job = ("sleeper", None, lambda copy: subprocess.Popen(["sleep", "600"]).pid)
    (_, found, code, _), = pool.go_through(iter([job]))
    assert code == 0 and time.monotonic() - began < 60
    while is_running(found):                                            # it is on its way out
        assert time.monotonic() - began < 60
        time.sleep(0.05)


def test_the_page_counts_and_lists_survivors_with_their_reasons():
    changes = find_changes("def f(x):\n    return x < 1, x[0]\n")
    verdicts = [run.describe(Mutant(str(n), "layers", "regard/a.py", change)) | {"verdict": verdict}
                for n, (change, verdict) in enumerate(zip(changes, ("survived", "caught"), strict=True))]
    text = "\n".join(report.page(verdicts, {"0": {"harmless": "x is never 1."}}, 7, "2026-01-01"))
    assert "1 of 2 mutants are caught, 50.0%" in text and "`x < 1 -> x <= 1`\n  x is never 1." in text
    assert "| layers | 1/1 |  |  |  |  | 0/1 |  |  | 1/2 |" in text
    assert report.unexplained(verdicts, {"0": {"harmless": "x is never 1."}}) == []
    assert report.unexplained(verdicts, {}) == verdicts[:1]
    assert json.dumps(verdicts)


def test_every_survivor_has_a_reason_or_a_test_that_exists():
    for id, entry in report.load_survivors().items():
        assert len(entry) == 1 and set(entry) <= {"harmless", "test"}, id
        if "test" in entry:
            path, _, name = entry["test"].partition("::")
            assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text("utf-8"), id
