"""What is installed: constraints name all of it, no floor admits a known hole, and a torch that is there stays."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "install"))

import environment  # noqa: E402
import requirements  # noqa: E402

# Package, a version with a hole, what it is. (First versions without: 14.0.1, 23.0.1; 0.0.18, 0.0.27, 0.0.31; ...)
HOLES = [
    ("pyarrow", "14.0.0", "CVE-2023-47248: a Parquet file runs code"),
    ("pyarrow", "23.0.0", "CVE-2026-25087: use after free in an Arrow file"),
    ("python-multipart", "0.0.17", "CVE-2024-53981: endless work on bytes around a boundary"),
    ("python-multipart", "0.0.26", "CVE-2026-42561: endless headers of a part"),
    ("python-multipart", "0.0.30", "CVE-2026-53540: a negative length buffers the whole body"),
    ("starlette", "0.49.0", "CVE-2025-62727: quadratic work on a Range header"),
    ("starlette", "1.0.0", "CVE-2026-48710: a Host header changes the path that checks see"),
    ("starlette", "1.3.0", "GHSA-82w8-qh3p-5jfq: limits of forms are ignored"),
    ("h11", "0.15.0", "CVE-2025-43859: requests smuggled in chunked bodies"),
    ("pillow", "12.2.0", "CVE-2026-55379: pictures that write out of bounds"),
    ("click", "8.3.2", "CVE-2026-7246"),
    ("pytest", "9.0.2", "CVE-2025-71176: a folder under /tmp with a known name"),
]


@pytest.mark.parametrize(("name", "version", "hole"), HOLES)
def test_no_floor_admits_a_known_hole(name, version, hole):
    (found,) = (each for each in map(Requirement, requirements.required("dev")) if each.name == name)
    assert version not in found.specifier, hole


def test_constraints_fit_the_requirements():
    pins = requirements.pins()
    for each in map(Requirement, requirements.required("dev")):
        assert each.specifier.contains(pins[requirements.normalize(each.name)]), each


def test_constraints_name_all_that_an_install_for_the_tests_brings():
    """Every package that `regard[dev]` leads to in this environment; what else is installed here does not matter."""
    assert sorted(closure(requirements.required("dev")) - set(requirements.pins())) == []


def closure(wanted):
    """The names of installed packages that requirements lead to, by their markers and extras."""
    found, left = set(), [(each, "") for each in wanted]
    done = set()
    while left:
        text, extra = left.pop()
        each = Requirement(text)
        if each.marker and not each.marker.evaluate({"extra": extra}):
            continue
        try:
            about = importlib.metadata.distribution(each.name)
        except importlib.metadata.PackageNotFoundError:
            continue                                       # of another platform, or this environment is older
        found.add(requirements.normalize(each.name))
        for inner in ("", *each.extras):
            if (each.name, inner) not in done:
                done.add((each.name, inner))
                left += [(need, inner) for need in about.requires or []]
    return found


def test_the_closure_follows_markers_and_extras(monkeypatch):
    world = {"a": ["b[x]", "c; python_version < '3'"], "b": ["d; extra == 'x'", "e; extra == 'y'"], "c": [], "d": [],
             "e": [], "stranger": []}

    class Found:
        def __init__(self, name):
            self.requires = world[name]

    monkeypatch.setattr(importlib.metadata, "distribution", Found)
    assert closure(["a"]) == {"a", "b", "d"}


def test_extras_that_name_others_of_our_own_bring_theirs():
    named = set(map(requirements.name_of, requirements.required("dev")))
    assert {"torch", "fastapi", "pyarrow", "tensorboard", "pytest"} <= named and "regard" not in named
    assert "pytest" not in set(map(requirements.name_of, requirements.required("web")))


@pytest.mark.parametrize(("there", "stays"), [
    ("2.13.0", True), ("2.13.0+cpu", True), ("2.11.0+cpu", True), ("2.15.1+cu126", True), ("3.0.0", True),
    ("2.10.0", False), ("2.9.1+cpu", False), (None, False)])
def test_a_torch_that_is_new_enough_is_pinned_as_it_is(there, stays, monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(environment, "installed", lambda name: there)
    monkeypatch.setattr(environment, "pip", lambda *arguments: asked.append(arguments) or 0)
    monkeypatch.setattr(environment, "build_found", lambda: "cuda")
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["triton==1.2; x == 'y'", "sympy"])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert environment.main("demo") == 0
    constraints = Path(asked[0][asked[0].index("--constraint") + 1])
    pins = requirements.pins(constraints)
    if stays:
        assert pins["torch"] == there and not {"triton", "sympy", "nvidia-cublas", "cuda-bindings"} & set(pins)
        assert pins["numpy"] == requirements.pins()["numpy"]
        assert f"torch {there} is here and stays" in capsys.readouterr().out
    else:
        assert constraints == requirements.CONSTRAINTS
        said = capsys.readouterr().out
        assert "about 2.8 GB will be fetched" in said and "CPU build" in said and ".venv/bin/pip" in said
    assert asked[0][-1].endswith("[web]")                  # what the demo and the page need, and nothing of the tests


def test_the_finder_prints_a_python_that_runs_or_nothing(tmp_path):
    def find(name):
        return subprocess.run(["sh", ROOT / "install" / "find_python.sh", name], text=True, capture_output=True,
                              check=True).stdout.strip()

    for version, runs in (("3.10.9", False), ("3.12.1", True), ("3.14.0", True), ("3.15.0", False)):
        pretended = tmp_path / f"python{version}"
        numbers = ", ".join(version.split("."))
        pretended.write_text(f"#!{sys.executable}\nimport sys; sys.version_info = ({numbers}); exec(sys.argv[2])\n")
        pretended.chmod(0o755)
        assert find(pretended) == (str(pretended) if runs else "")
    assert find("no-such-python") == ""


def test_pins_agree_with_what_the_packages_here_ask_of_each_other():
    """With torch's CUDA build this holds triton to the one that torch needs; elsewhere `make resolve` asks pip."""
    pins = requirements.pins()
    for name in closure(requirements.required("dev")):
        for each in map(Requirement, importlib.metadata.requires(name) or []):
            pin = pins.get(requirements.normalize(each.name))
            if pin and (each.marker is None or each.marker.evaluate({"extra": ""})):
                assert each.specifier.contains(pin, prereleases=True), f"{name} needs {each}, constraints.txt has {pin}"
