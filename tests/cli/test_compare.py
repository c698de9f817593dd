"""`regard compare`, through the command itself, with its trials in processes of their own; and --params of training."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib

import pytest

from .test_commands import environment

# `regard` with an n-gram that is counted in its own process and measured little, and with no charts. The RNN gets a
# process of its own.
COUNTED_HERE = """
from regard.cli import main
from regard.compare import comparison, family_curves, measure, trial

def start(folder, plan, each, stop):
    in_a_process(folder, plan, each, stop) if each.order is None else trial.run_trial(folder, plan, each)

in_a_process, comparison.in_a_process = comparison.in_a_process, start
measure.LENGTHS, measure.GENERATED, measure.SAMPLED = (32, 64), 6, 12
family_curves.draw = lambda chart: b"<svg></svg>"
main()
"""


def test_a_comparison_can_be_interrupted_and_goes_on(regard, here, monkeypatch):
    asked = ["compare", "lm", "text.txt", "--families", "rnn", "--tokens", "20k", "--set", "rnn.width=8", "--set",
             "rnn.hidden=12", "--set", "rnn.context=16", "--set", "training.batch=4", "--set",
             "training.checkpoint_every=50", "--tokenizer", "char", "--device", "cpu", "--orders", "3", "--seeds", "1",
             "--out", "out"]
    process = subprocess.Popen([sys.executable, "-c", COUNTED_HERE, *asked], cwd=here, env=environment(here),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    metrics, record = here / "out" / "runs" / "rnn-0" / "metrics.jsonl", here / "out" / "trials" / "rnn-0.json"
    until = time.monotonic() + 120
    while time.monotonic() < until and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == (
        "regard: stopped during rnn, seed 0; 1 of 2 trials are done and kept: go on with the same command")
    steps = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
    assert not record.exists() and steps[-1] < 312

    monkeypatch.setenv("OMP_NUM_THREADS", "1")                # of the processes that the command starts
    outcome = regard(*asked)
    lines = outcome.done().splitlines()
    assert {line.split()[0] for line in lines[3:5]} == {"ngram", "rnn"}
    assert "1 of 2 trials in out are done and kept" in outcome.err and "report: out/report.html" in outcome.err
    again = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
    assert again[: len(steps)] == steps and again[-1] == 312
    kept, stamp = json.loads(record.read_text()), record.stat().st_mtime_ns
    assert kept["memory"]["bytes"] > 0 and kept["cost"]["read"][-1][0] == 8192

    monkeypatch.setattr("regard.compare.family_curves.draw", lambda chart: b"<svg></svg>")         # real ones are there
    told = json.loads(regard(*asked, "--json").done())        # nothing is left to do
    assert {"table", "trials", "text", "command", "budget"} <= set(told) and told["waiting"] == []
    assert told == json.loads(regard("compare", "report", "out", "--json").done())
    assert regard(*asked, "--tokens", "30k").mistake() == (
        "out holds a comparison with budget tokens 20000, not tokens 30000: use the same settings to go on with it, or "
        "another folder with --out")
    assert record.stat().st_mtime_ns == stamp


def test_a_dry_run_shows_the_plan_and_trains_nothing(regard, here):
    text = regard("compare", "lm", "text.txt", "--families", "rnn,transformer", "--params", "50k", "--minutes", "2",
                  "--tokenizer", "char", "--device", "cpu", "--dry-run").done()
    assert "2 min a trial, 12 trials, about 0:14:" in text.replace("about 14:", "about 0:14:")
    for family in ("rnn", "transformer"):
        line = next(line for line in text.splitlines() if line.startswith(family))
        size = int(line.split()[1].replace(",", ""))
        assert abs(size - 50_000) <= 2500
    assert "orders 2, 3, 4, 5, 6, 7: counted" in text and not (here / "compare").exists()


@pytest.mark.parametrize("task, files, test", [
    ("lm", ("text.txt",), ("--test", "own.txt")), ("translate", ("a.fr", "a.en"), ("--test", "own.fr", "own.en")),
    ("translate", ("a.fr", "a.en"), ("--test-pairs", "own.tsv"))])
def test_files_to_report_on_are_named_with_test(regard, here, task, files, test):
    for name in ("a.fr", "a.en", "own.fr", "own.en", "own.txt"):
        (here / name).write_text("".join(f"a line, number {n}, of {name}\n" for n in range(50)))
    (here / "own.tsv").write_text("un\tone\ndeux\ttwo\n")
    text = regard("compare", task, *files, "--families", "rnn", "--steps", "1", "--device", "cpu", *test,
                  "--dry-run").done()
    what = "pairs" if task == "translate" else "text"
    assert f"chosen on the validation {what}, measured on the test part" in text
    missing = [word.replace("own", "missing") for word in test]
    assert "missing." in regard("compare", task, *files, "--families", "rnn", *missing, "--dry-run").mistake()


@pytest.mark.parametrize("arguments, message", [
    (("--families", "rnnn"), "unknown family rnnn: did you mean rnn?"),
    (("--families", "rnn", "--params", "20", "--steps", "1"), "--params 20: the nearest rnn over a vocabulary of"),
    (("--families", "rnn", "--minutes", "1", "--steps", "2"), "--minutes and --steps: one budget for all"),
    (("--families", "rnn", "--set", "hidden=2"), "--set hidden=2: write it as --set table.name=value"),
])
def test_a_mistake_is_one_line(regard, here, arguments, message):
    outcome = regard("compare", "lm", "text.txt", "--tokenizer", "char", "--device", "cpu", *arguments)
    assert outcome.mistake().startswith(message)
    assert not (here / "compare").exists()


@pytest.mark.parametrize("arguments", [
    ("--orders", "two"), ("--orders", "5-2"), ("--params", "many"), ("--params", "0")])
def test_wrong_usage_is_told(regard, arguments):
    outcome = regard("compare", "lm", "text.txt", *arguments)
    assert outcome.code == 2 and arguments[1] in outcome.err


def test_orders_are_read_as_people_write_them():
    from regard.cli.compare import numbers, split_assignments

    assert numbers("3") == (3,) and numbers("2-4,7") == (2, 3, 4, 7)
    assert split_assignments(("my.layers:Own.width=8", "rnn.training.batch=2"), ("my.layers:Own", "rnn")) == [
        ("my.layers:Own", "width", "8"), ("rnn", "training.batch", "2")]


# ----------------------------------------------------------------------------------- training with --params


@pytest.mark.parametrize("text, count", [("20k", 20_000), ("20,000", 20_000), ("0.02M", 20_000), ("20_000", 20_000)])
def test_counts_are_read_as_people_write_them(text, count):
    from regard.tasks.flags import COUNT

    assert COUNT.convert(text, None, None) == count


def test_a_model_is_trained_with_the_parameters_asked_for(regard, here):
    asked = ("--family", "rnn", "--params", "20k", "--steps", "1", "--device", "cpu", "--tokenizer", "char")
    told = json.loads(regard("train", "lm", "text.txt", *asked, "--out", "run", "--quiet", "--json").done())
    assert abs(told["parameters"] - 20_000) <= 1000
    model = tomllib.loads((here / "run" / "run.toml").read_text())["model"]
    assert model["hidden"] != 256 and "params" not in model
    refused = regard("train", "lm", "text.txt", "--out", "run", "--resume", "--params", "20k")
    assert refused.mistake() == "--params 20,000: --resume goes on with a model that has its size; leave it out"


@pytest.mark.parametrize("arguments, message", [
    (("--family", "rnn", "--params", "20k", "--hidden", "7"), "--params 20,000 chooses model.hidden = "),
    (("--family", "ngram", "--params", "20k"), "--params 20,000: the ngram is counted and has no size to choose"),
])
def test_parameters_that_cannot_be_are_refused(regard, arguments, message):
    outcome = regard("train", "lm", "text.txt", "--steps", "1", "--device", "cpu", "--tokenizer", "char", *arguments)
    assert outcome.mistake().startswith(message)
