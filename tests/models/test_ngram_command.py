"""An n-gram at the command line: smoothing, pruning, and the n-gram that makes a text impossible."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from regard.cli.score import command as score
from regard.cli.train import command as train

TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "other.txt").write_text("the cat number 1 sat on the mat\nthe mat sat\n")
    return tmp_path


def run(command, *words: str) -> str:
    outcome = CliRunner().invoke(command, words, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def ngram(*more: str) -> None:
    run(train, "lm", "text.txt", "--family", "ngram", "--order", "3", "--tokenizer", "whitespace", "--out", "run",
        "--quiet", *more)


def test_without_smoothing_the_ngram_that_was_never_seen_is_named(here):
    """`sat on the`, `the mat`, `mat <eos>`; `<bos> the mat`, `mat sat`, `sat <eos>`: by the longest context seen."""
    ngram("--smoothing", "none")
    assert run(score, "run", "other.txt").splitlines()[-1] == (
        "infinite         `sat on the` was never seen: its probability is zero, the first of 6 such tokens")
    told = json.loads(run(score, "run", "other.txt", "--json"))
    assert told["loss"] is None and told["impossible"] == 6 and told["first_impossible"] == ["sat", "on", "the"]


def test_with_smoothing_nothing_is_impossible(here):
    ngram()
    assert "infinite" not in run(score, "run", "other.txt")
    assert "impossible" not in json.loads(run(score, "run", "other.txt", "--json"))


def test_pruning_is_a_flag_and_is_kept_in_the_run(here):
    ngram("--prune", "0,0,1")
    assert "prune = [0, 0, 1]" in (here / "run" / "run.toml").read_text()
    assert json.loads(run(score, "run", "other.txt", "--json"))["loss"] > 0
