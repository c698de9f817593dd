"""Where results of the lab are taken from: those measured here, or else those that came with Regard."""

import shutil
from pathlib import Path

import pytest

from regard.cli import main
from regard.lab import find, folders
from regard.lab.claims import bottleneck


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """An empty folder to be in, and one claim's results as a wheel lays them out."""
    folder = tmp_path / "site" / "measured"
    (folder / "cpu").mkdir(parents=True)
    for path in (folders.CLONED / "cpu").glob("bottleneck*"):
        if path.suffix in (".json", ".svg"):
            shutil.copy(path, folder / "cpu")
    monkeypatch.setattr(folders, "PACKAGED", folder)
    monkeypatch.setattr(find, "_ours", lambda: [find._our(bottleneck)])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def test_results_here_come_first_then_the_packaged_ones_then_the_clones(packaged, monkeypatch):
    assert folders.find_results() == packaged
    monkeypatch.setattr(folders, "PACKAGED", packaged / "missing")
    assert folders.find_results() == folders.CLONED and (folders.CLONED / "cpu" / "bottleneck.json").is_file()
    monkeypatch.setattr(folders, "CLONED", packaged / "missing")
    assert folders.find_results() is None
    folders.HERE.mkdir(parents=True)
    assert folders.find_results() == Path("lab/results")
    assert folders.find_results("given") == Path("given")


def test_a_report_of_results_that_came_with_regard_writes_nothing_beside_them(packaged, capsys):
    before = {path: path.read_bytes() for path in packaged.rglob("*") if path.is_file()}
    main(["lab", "report", "lab.html"])
    assert capsys.readouterr().err == "wrote lab.html\n"
    assert "data:image/svg+xml" in Path("lab.html").read_text()
    assert {path: path.read_bytes() for path in packaged.rglob("*") if path.is_file()} == before
    assert not Path("lab").exists()
