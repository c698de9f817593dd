"""`train summarise`, `summarise`, and `score` of summaries, through the command line."""

import json

import pytest

from regard.cli import main

NAMES, THINGS = ("Mia", "Tom", "Rosa", "Ben"), ("kite", "drum", "boat")
PAIRS = [(f"{name} was in the park. It was a fine day. There was a {thing}.", f"{name} had a {thing}.")
         for name in NAMES for thing in THINGS for _ in range(3)]
RUN = ["--tokenizer", "word", "--family", "rnn-attention", "--width", "16", "--hidden", "24", "--batch", "64",
       "--context", "32", "--steps", "3", "--device", "cpu", "--quiet", "--set", "data.drop_duplicates=false"]


def write(folder):
    (folder / "pairs.jsonl").write_text(
        "".join(json.dumps({"document": one, "summary": other}) + "\n" for one, other in PAIRS))


@pytest.fixture(scope="session")
def summariser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summariser")
    write(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        main(["train", "summarise", str(folder / "pairs.jsonl"), *RUN, "--out", str(folder / "run")])
    return folder / "run"


@pytest.fixture(autouse=True)
def files(here):
    write(here)
    return here


def test_one_summary_comes_out_for_each_document(regard, summariser):
    told = regard("summarise", summariser, "--beam", "2", stdin=b"Mia was in the park.\n\nTom had a kite.\n").done()
    assert told.count("\n") == 3 and told.split("\n")[1] == ""


def test_a_long_document_is_read_in_parts_and_that_is_said(regard, summariser):
    document = " ".join(text for text, _ in PAIRS[:6])
    outcome = regard("summarise", summariser, "--json", stdin=document.encode())
    row = json.loads(outcome.done())
    assert row["sentences"] > 1 and row["source"] == document
    assert "cut into sentences" in outcome.err or "parts" in outcome.err or "too long" in outcome.err


def test_the_score_stands_beside_the_first_sentence(regard, summariser):
    told = json.loads(regard("score", summariser, "pairs.jsonl", "--beam", "2", "--json").done())
    assert {"rouge1", "rouge2", "rougeL", "rougeL_interval", "lead", "against_lead", "signature"} <= set(told)
    assert told["lead"]["rouge1"] > 0 and told["against_lead"]["names"] == ["the first sentence", "it"]
    shown = regard("score", summariser, "pairs.jsonl", "--beam", "2").done()
    assert "ROUGE-L" in shown and "the first sentence alone" in shown
    assert shown.count(", 95% over texts)") == 6                         # three kinds, beside the first sentence's


def test_two_runs_are_compared_on_the_same_documents(regard, summariser):
    told = json.loads(regard("score", summariser, "pairs.jsonl", "--beam", 1, "--against", summariser, "--json").done())
    assert told["against"]["rougeL"]["difference"] == 0
    assert told["against"]["verdict"] == "no difference that this test set can show"


def test_a_run_of_another_task_is_refused(regard, summariser):
    assert "is a run of the task summarise: use it with regard summarise" in regard("translate", summariser).mistake()


def test_files_of_two_lengths_are_refused(regard, here):
    (here / "a.txt").write_text("one\ntwo\n")
    (here / "b.txt").write_text("one\n")
    assert "a.txt has 2 lines and b.txt has 1 line" in regard("train", "summarise", "a.txt", "b.txt").mistake()
