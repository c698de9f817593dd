"""Commands over files and folders: into --out, one line for each line; and --workers of training."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.data import workers
from tests.cli.conftest import TINY


def test_lines_of_several_files_are_scored_into_a_file(regard, runs, here):
    (here / "a.txt").write_text("the cat\n\nsat on mat\n")
    (here / "b.txt").write_text("the end")
    outcome = regard("score", runs / "rnn", "a.txt", "b.txt", "--per-line", "--out", "scores.jsonl", "--json",
                     "--device", "cpu")
    assert outcome.done() == "" and "(written: scores.jsonl)" in outcome.err
    rows = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    assert [row["tokens"] for row in rows] == [3, 1, 4, 3] and all(row["log_prob"] < 0 for row in rows)
    streamed = regard("score", runs / "rnn", "b.txt", "--per-line", "--json", "--device", "cpu").done()
    assert json.loads(streamed)["log_prob"] == pytest.approx(rows[3]["log_prob"], rel=1e-5)


def test_training_is_told_how_many_processes_read_the_text(regard, here, monkeypatch):
    asked = []
    prepare = workers.worker_count
    monkeypatch.setattr("regard.data.reading.in_segments.worker_count", lambda: asked.append(prepare()) or 1)
    monkeypatch.setattr("regard.data.reading.in_segments.LARGE", 0)
    regard("train", "lm", "text.txt", *TINY, "--out", "run", "--quiet", "--workers", "3", "--no-mix").done()
    assert set(asked) == {3}


@pytest.mark.parametrize(("arguments", "message"), [
    (["translate", "none", "a.txt", "b.txt"], "several files, folders, --workers and torchrun need --out"),
    (["translate", "none", ".", "--workers", "2"], "several files, folders, --workers and torchrun need --out"),
    (["caption", "none", ".", "--workers", "2"], "several files, folders, --workers and torchrun need --out"),
    (["vectors", "none", "a.txt", "--workers", "2", "--out", "a.pdf"], "written to a .npy, .safetensors or .jsonl"),
    (["translate", "none", "text.txt", "--workers", "2", "--out", "o"], "none"),
])
def test_what_cannot_be_is_one_line(regard, arguments, message):
    assert message in regard(*arguments).mistake()


def test_rows_without_per_line_and_a_task_that_is_not_used_over_files_are_refused(regard, runs):
    assert "is for the rows of --per-line" in regard("score", runs / "rnn", "text.txt", "--out", "o").mistake()
    wrong = regard("translate", runs / "rnn", "text.txt", "--out", "o", "--workers", "1").mistake()
    assert "is a run of the task lm: use it with" in wrong
    assert not Path("o").exists() and not Path("o.parts").exists()


def test_an_array_of_vectors_is_read_by_numpy(regard, here, tmp_path):
    regard("train", "masked", "text.txt", *TINY, "--out", "masked", "--quiet").done()
    regard("vectors", "masked", "text.txt", "text.txt", "--out", "v.npy", "--workers", "1", "--device", "cpu").done()
    array = np.load("v.npy")
    assert array.shape == (160, 16) and np.allclose(array[:80], array[80:], atol=1e-6)
