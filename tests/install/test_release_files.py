"""What a release needs: one version everywhere, notes, kept runs, and files for CI that name what there is."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import regard

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "install"))

import release  # noqa: E402
import requirements  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture
def tree(tmp_path):
    """A copy of the files that name the version, as they will be on the day of the release."""
    for name in (*release.NAMED, "CHANGELOG.md", "docs/releases.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text("utf-8").replace("(unreleased)", "(2030-01-31)")
        (tmp_path / name).write_text(text, encoding="utf-8")
    kept = tmp_path / release.KEPT / regard.__version__
    kept.mkdir(parents=True)
    (kept / "expected.json").write_text("{}")
    return tmp_path


def test_on_its_day_this_version_can_be_released_and_has_notes(tree, capsys):
    assert release.main(regard.__version__, tree) == 0
    assert "The first version" in capsys.readouterr().out


def test_before_its_day_only_the_date_is_missing():
    assert [each for each in release.find_missing(regard.__version__, ROOT) if "CHANGELOG" not in each] == []


@pytest.mark.parametrize(("name", "before", "after", "told"), [
    ("CITATION.cff", "version: 0.1.0", "version: 0.0.9", "CITATION.cff names 0.0.9"),
    ("README.md", "regard-0.1.0-py3", "regard-0.0.9-py3", "README.md names 0.0.9"),
    ("CHANGELOG.md", "(2030-01-31)", "(soon)", "CHANGELOG.md has no heading"),
    ("docs/releases.md", "## 0.1.0", "## 0.0.9", "docs/releases.md has no notes"),
    (f"{release.KEPT}/0.1.0/expected.json", None, None, "has no runs of 0.1.0"),
])
def test_a_release_with_something_missing_is_refused(tree, capsys, name, before, after, told):
    path = tree / name
    if before is None:
        path.unlink()
    else:
        path.write_text(path.read_text("utf-8").replace(before, after), encoding="utf-8")
    assert release.main("0.1.0", tree) == 1
    assert told in capsys.readouterr().err


def test_every_classifier_is_known_to_the_indexes():
    known = pytest.importorskip("trove_classifiers").classifiers
    assert set(PROJECT["project"]["classifiers"]) <= set(known)


def test_the_wheel_names_the_home_that_it_is_built_for_and_none_where_there_is_none():
    pytest.importorskip("hatchling")
    asked = ("import json, published; m = {}; published.Published('.', {}).update(m); print(json.dumps(m))")

    def built_for(home):
        env = os.environ | {"REGARD_HOME": home, "PYTHONPATH": str(ROOT / "install")}
        return json.loads(subprocess.run([sys.executable, "-c", asked], env=env, check=True, text=True,
                                         capture_output=True).stdout)

    assert built_for("") == {"urls": {}, "readme": {"content-type": "text/markdown",
                                                    "text": (ROOT / "README.md").read_text("utf-8")}}
    there = built_for("https://forge.example/regard/")
    assert there["urls"]["Issues"] == "https://forge.example/regard/issues"
    targets = re.findall(r"\]\(([^)]+)\)", there["readme"]["text"])
    assert targets and all(target.startswith(("https://", "#")) for target in targets)
    pages = [target.partition("/HEAD/")[2].partition("#")[0] for target in [*targets, *there["urls"].values()]
             if "/HEAD/" in target]
    assert pages and all((ROOT / page).exists() for page in pages)


def test_the_versions_of_hooks_are_those_of_the_constraints():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    pinned = [each for repo in hooks for hook in repo["hooks"] for each in hook.get("additional_dependencies", ())]
    assert pinned and all(requirements.pins()[each.partition("==")[0]] == each.partition("==")[2] for each in pinned)


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "Dockerfile"], ids=lambda path: path.name)
def test_what_ci_and_the_container_name_exists(path):
    """Scripts, make targets and copied files."""
    text = path.read_text("utf-8")
    made = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert {target for line in re.findall(r"run: make (.+)", text) for target in line.split()} <= made
    scripts = re.findall(r"python (install/\w+\.py)", text)
    copied = [name for name in re.findall(r"^COPY (?!--from)(\S+) ", text, re.M) if name != "."]
    assert all((ROOT / name).exists() for name in scripts + copied)


def test_ci_tries_every_python_that_is_promised():
    promised = {each.rsplit(" ", 1)[1] for each in PROJECT["project"]["classifiers"] if "Python :: 3." in each}
    jobs = yaml.safe_load(WORKFLOWS[-1].read_text("utf-8"))["jobs"]
    assert promised <= set(jobs["tests"]["strategy"]["matrix"]["python"])
    assert promised <= set(jobs["wheel"]["strategy"]["matrix"]["python"])


def test_the_container_gets_all_that_the_wheel_is_built_of():
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    needed = {name.partition("/")[0] for name in wheel} | {"pyproject.toml", "README.md", "LICENSE", "install"}
    assert needed <= sent
