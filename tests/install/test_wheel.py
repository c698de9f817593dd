"""The wheel, built here and looked into: the page, the types and what the lab measured come along."""

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from regard.lab.outcome import load_cards

pytest.importorskip("hatchling", reason="the wheel is built by hatchling, of the extra `dev`")

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    """The wheel as pip would lay it out, far from the clone."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


def test_it_brings_types_page_kernels_words_and_every_result_of_the_lab(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"regard/py.typed", "regard/look/page/index.html", "regard/kernels/cpu/native.c"} <= names
    words = {path.relative_to(ROOT).as_posix() for path in (ROOT / "regard").rglob("*.t*")}       # .toml, .tsv, .txt
    assert len(words) > 5 and words <= names
    kept = {path.relative_to(ROOT / "lab" / "results").as_posix() for suffix in ("json", "svg")
            for path in (ROOT / "lab" / "results").rglob(f"*.{suffix}")}
    assert kept and {name.removeprefix("regard/lab/measured/") for name in names if "/measured/" in name} == kept


def test_it_is_small_and_holds_nothing_but_the_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert all(name.startswith(("regard/", "regard-")) for name in names)
    assert not [name for name in names if name.endswith((".png", ".pyc", ".so"))]
    assert wheel.stat().st_size < 6_000_000


def test_it_says_which_pythons_and_that_it_is_typed(unpacked):
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    told = Parser().parsestr(metadata.read_text()).get_all("Classifier")
    assert "Typing :: Typed" in told
    assert {each.rsplit(" ", 1)[1] for each in told if "Python :: 3." in each} == {"3.11", "3.12", "3.13", "3.14"}


def test_outside_the_clone_the_lab_shows_what_came_with_it(unpacked, tmp_path):
    """In another process, in an empty folder, with the unpacked wheel in the place of this tree."""
    asked = [sys.executable, "-c", "from regard.lab.folders import find_results; print(find_results())"]
    told = subprocess.run(asked, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(unpacked)}, text=True,
                          capture_output=True, check=True).stdout
    assert Path(told.strip()) == unpacked / "regard" / "lab" / "measured"
    assert len(load_cards(told.strip())) == len(load_cards(ROOT / "lab" / "results")) > 0
