"""A layer of the user's own goes wherever a built-in one goes; a folder that names one runs no code by itself."""

import json
import shutil
import sys
from pathlib import Path

import pytest

import regard as package
from regard.compare import comparison, measure
from regard.compare.comparison import in_a_process
from regard.compare.trial import run_trial
from regard.errors import RunError

from .conftest import TINY


@pytest.fixture
def own(here, monkeypatch):
    shutil.copy(Path(__file__).parent.parent / "own_layer" / "echo_layer.py", here)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "echo_layer:Echo"
    sys.modules.pop("echo_layer", None)


def test_it_trains_and_its_folder_is_used_only_when_trusted(regard, here, own):
    regard("train", "lm", "text.txt", "--family", own, *TINY).done()
    run = "runs/text-Echo"
    for words in (["generate", run, "--tokens", "5"], ["score", run, "text.txt"], ["check", run],
                  ["train", "lm", "text.txt", "--out", run, "--resume", "--steps", "4"],
                  ["train", "lm", "text.txt", "--out", "other", "--from", run, "--steps", "1"]):
        sys.modules.pop("echo_layer", None)
        mistake = regard(*words).mistake()
        assert "--trust" in mistake and own in mistake and "echo_layer" not in sys.modules
        regard(*words, "--trust").done()
    with pytest.raises(RunError, match="trust=True"):
        package.load(run)
    assert isinstance(package.load(run, trust=True).generate("the", new_tokens=3), str)


def test_it_is_checked_and_stands_in_a_pattern(regard, own):
    assert "every law holds" in regard("check", own).done()
    regard("train", "lm", "text.txt", "--family", "hybrid", "--pattern", f"{own},attention", *TINY, "--layers", "2",
           "--out", "mixed").done()
    assert own in regard("generate", "mixed").mistake()
    regard("generate", "mixed", "--trust", "--tokens", "3").done()


def test_a_slip_in_its_name_is_one_line(regard, own):
    assert "did you mean Echo" in regard("train", "lm", "text.txt", "--family", "echo_layer:Ecco").mistake()


def test_it_stands_in_a_comparison(regard, here, own, monkeypatch):
    def start(folder, plan, each, stop):
        """Its own trial has a process of its own, which must find it; n-grams are counted here."""
        if each.order is None:
            in_a_process(folder, plan, each, stop)
        else:
            run_trial(folder, plan, each)

    monkeypatch.setattr(comparison, "in_a_process", start)
    monkeypatch.setattr(measure, "LENGTHS", (32, 64))
    monkeypatch.setattr("regard.compare.family_curves.draw", lambda chart: b"<svg></svg>")
    regard("compare", "lm", "text.txt", "--families", own, "--params", "20k", "--steps", "2", "--seeds", "1",
           "--orders", "2", "--device", "cpu", "--out", "side").done()
    results = json.loads((here / "side" / "results.json").read_text())
    assert own in {trial["family"] for trial in results["trials"] if trial["status"] == "done"}
    assert own in (here / "side" / "table.md").read_text()
