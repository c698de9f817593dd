"""A run of each version, stopped in the middle, loads, scores as it did, and goes on to the losses that it came to."""

import json
import shutil

import pytest

import regard
from regard.errors import RunError
from regard.manifest import FORMAT, MANIFEST, read_manifest, write_manifest
from tests.fixtures import versions
from tests.fixtures.runs import measure

RUNS = {f"{path.parent.name}/{path.name}": path for path in versions.kept()}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def expected(path):
    return json.loads((path.parent / versions.EXPECTED).read_text())[path.name]


def test_this_version_has_its_runs():
    """Whoever raises the version adds them: python -m tests.fixtures.versions"""
    assert {path.name for path in RUNS.values() if path.parent.name == regard.__version__} == set(versions.VARIANTS)


@pytest.mark.parametrize("name", RUNS)
def test_it_scores_the_same(name):
    found, known = measure(RUNS[name]), expected(RUNS[name])
    assert found["texts"] == known["texts"]
    assert found["scores"] == pytest.approx(known["scores"], rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("name", RUNS)
def test_it_goes_on_to_the_same_losses(name, tmp_path):
    copy = shutil.copytree(RUNS[name], tmp_path / RUNS[name].name)
    losses = versions.finish(copy)
    assert len(losses) >= 2 and losses == pytest.approx(expected(RUNS[name])["losses"], rel=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_one_of_a_newer_format_is_refused_with_what_to_do(name, tmp_path):
    copy = shutil.copytree(RUNS[name], tmp_path / RUNS[name].name)
    settings = (copy / "run.toml").read_text()
    assert f"format = {FORMAT}" in settings
    (copy / "run.toml").write_text(settings.replace(f"format = {FORMAT}", f"format = {FORMAT + 1}"))
    for use in (measure, versions.finish):
        with pytest.raises(RunError, match=f"format {FORMAT + 1}.*update Regard"):
            use(copy)


def test_a_newer_manifest_or_checkpoint_is_refused_with_what_to_do(tmp_path):
    from dataclasses import replace

    from regard.manifest import digest_values

    path = next(path for path in RUNS.values() if path.name == "transformer")
    copy = shutil.copytree(path, tmp_path / "transformer")
    write_manifest(copy, replace(read_manifest(copy), format=FORMAT + 1))
    for use in (measure, versions.finish):
        with pytest.raises(RunError, match=f"format {FORMAT + 1}.*update Regard"):
            use(copy)
    copy = shutil.copytree(path, tmp_path / "again" / "transformer")
    checkpoint = next((copy / "checkpoints").iterdir()) / MANIFEST
    values = {**json.loads(checkpoint.read_text()), "format": FORMAT + 1}
    values.pop("sha256")
    checkpoint.write_text(json.dumps({**values, "sha256": digest_values(values)}))
    with pytest.raises(RunError, match=f"format {FORMAT + 1}.*update Regard"):
        versions.finish(copy)
