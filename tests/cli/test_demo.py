"""`regard demo` on a tiny phrasebook: it trains, translates, measures and draws; with --lecture, two systems."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from regard import load
from regard.cli import demo
from regard.data import embedded


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs the demo with these options and gives its result; a few hundred pairs, a second to learn."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(embedded.PAIRED, "phrasebook", replace(embedded.PAIRED["phrasebook"], count=300))
    monkeypatch.setattr(demo, "MEASURED", 4)
    monkeypatch.setattr(demo, "SHOWN", 2)
    monkeypatch.chdir(tmp_path)

    def given(*options):
        return CliRunner().invoke(demo.command, ["--minutes", "0.01", "--device", "cpu", *options])

    return given


def figures_of(told):
    return [told["bleu"], told["exact_match"], told["aer"], *told["unseen"].values()]


def test_the_demo_trains_translates_and_shows_what_was_read(run, tmp_path):
    found = run("--json", "--out", "mine")
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert told["family"] == "rnn-attention" and told["run"] == "mine" and "lecture" not in told
    assert all(isinstance(each, float) for each in figures_of(told))
    assert all((tmp_path / path).is_file() for path in told["maps"]) and len(told["maps"]) == 3
    assert "Training a translator, the family rnn-attention, for about 1 seconds" in found.stderr
    assert load("mine", device="cpu").parameters == told["parameters"]


def test_with_lecture_a_simple_rnn_that_reads_one_way_stands_beside(run):
    found = run("--lecture", "--json")
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    own = told["lecture"]
    assert own["run"] == f"{told['run']}-lecture" and own["parameters"] != told["parameters"]
    assert all(isinstance(each, float) for each in figures_of(told) + figures_of(own))
    lines = found.stderr.splitlines()
    at = lines.index("held-out sentences")
    assert [line.split("BLEU")[0].strip() for line in lines[at + 1:at + 3]] == ["rnn-attention", "the lectures' own"]
    model = load(own["run"], device="cpu").model
    assert not list(model.stack.reader.parameters())                     # e = s · h: no weight at all
    assert {type(each).__name__ for each in model.modules() if "recurrent" in type(each).__module__} == {"Elman"}
    assert model.encoder.d_out == model.stack.d_out                      # from left to right alone


def test_a_folder_that_is_taken_is_said_before_anything_is_trained(run, tmp_path):
    (tmp_path / "mine-lecture").mkdir()
    found = run("--lecture", "--out", "mine")
    assert found.exit_code != 0 and "mine-lecture exists already" in str(found.exception)
    assert not (tmp_path / "mine").exists()
