"""Runs of earlier versions load, give the numbers that they gave when they were made, and can be resumed.

The runs under fixtures/runs were written when their format was new; those under fixtures/releases, by each release.
"""

import json
import shutil

import pytest

import regard
from tests.fixtures.runs import HERE, NAMES, RESUMABLE, expected, measure, resume

EXPECTED = expected()
RELEASES = sorted(path.name for path in (HERE / "releases").iterdir())


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_an_earlier_version_gives_the_numbers_that_it_gave(name):
    found = measure(HERE / "runs" / name)
    assert found["texts"] == EXPECTED[name]["texts"]
    assert found["scores"] == pytest.approx(EXPECTED[name]["scores"], rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("name", RESUMABLE)
def test_a_run_of_an_earlier_version_is_resumed_where_it_stood(name, tmp_path):
    copy = shutil.copytree(HERE / "runs" / name, tmp_path / name)
    assert resume(copy) == pytest.approx(EXPECTED[name]["resumed"], rel=1e-4)


def test_every_kept_run_is_tried():
    assert sorted(NAMES) == sorted(path.name for path in (HERE / "runs").iterdir())


@pytest.mark.parametrize("version", RELEASES)
def test_the_runs_of_a_release_give_the_numbers_that_they_gave(version):
    folder = HERE / "releases" / version
    for name, numbers in json.loads((folder / "expected.json").read_text()).items():
        found = measure(folder / name)
        assert found["texts"] == numbers["texts"], name
        assert found["scores"] == pytest.approx(numbers["scores"], rel=2e-5, abs=2e-5), name


def test_this_version_has_kept_runs():
    assert regard.__version__ in RELEASES
