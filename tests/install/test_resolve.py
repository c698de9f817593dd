"""`make resolve`: pip's word on each Python, asked here of small wheels made on the spot, without a network."""

import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "install"))

import resolve


def make_wheel(folder, name, version, *needs):
    about = f"{name}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {need}" for need in needs)]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{about}/METADATA", "\n".join(lines) + "\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A torch as published with CUDA, which needs one triton exactly, beside two tritons; no index but this folder."""
    make_wheel(tmp_path, "torch", "2.13.0", "triton==3.7.1", "nvidia-cublas")
    make_wheel(tmp_path, "nvidia_cublas", "13.0")
    for version in ("3.7.1", "3.9.0"):
        make_wheel(tmp_path, "triton", version)
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path)), ("PIP_CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(resolve, "CONSTRAINTS", tmp_path / "constraints.txt")
    monkeypatch.setattr(resolve, "PYTHONS", ("3.11", "3.99"))
    monkeypatch.setattr(resolve, "find", {"3.11": sys.executable, "3.99": None}.get)
    monkeypatch.setattr(resolve, "required", lambda *extras: ["torch>=2.11", "triton>=3.2"])
    return tmp_path


def test_what_resolves_is_told_and_a_python_that_is_not_here_is_skipped(index, capsys):
    (index / "constraints.txt").write_text("torch==2.13.0\ntriton==3.7.1\n")
    assert resolve.main() == 0
    said = sorted(capsys.readouterr().out.splitlines())
    assert said[0].startswith(
        "Python 3.11: demo, tests, site and wheel resolve: 3 packages, torch 2.13.0, triton 3.7.1, CUDA build (")
    assert said[1] == "Python 3.99: not found here, skipped"


def test_a_pin_that_torch_does_not_take_fails_with_pips_reason(index, capsys):
    (index / "constraints.txt").write_text("torch==2.13.0\ntriton==3.9.0\n")
    assert resolve.main() == 1
    said = capsys.readouterr().out
    assert "Python 3.11: does not resolve" in said and "ResolutionImpossible" in said


def test_without_any_python_nothing_passes(index, capsys, monkeypatch):
    monkeypatch.setattr(resolve, "find", lambda version: None)
    assert resolve.main() == 1
    assert "nothing was resolved" in capsys.readouterr().out
