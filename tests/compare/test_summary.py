"""Means, intervals, ties and crossings, by hand."""

import math
from pathlib import Path

import pytest

from regard.compare.plan import Entry, Plan
from regard.compare.run import Compared
from regard.compare.summary import crossing, interval, overlap, summarise
from regard.compare.table import as_markdown, as_text, notes

COUNTS = {"tokens": 100, "bytes": 100, "unknown": 0}


def entry(family, counted=False):
    return Entry(family, "about it", counted, None if counted else 10, {})


def plan(*families, seeds=2, **changes):
    entries = (entry("ngram", counted=True), *map(entry, families))
    return Plan(**{**dict(files=("text.txt",), budget={"minutes": 2.0}, params=None, seeds=seeds, orders=(2, 3),
                          settings={}, device="cpu", entries=entries,
                          text={"train": COUNTS, "valid": COUNTS, "tokenizer": "char"}), **changes})


def record(family, bits, seed=0, order=None, valid=()):
    return {"name": f"{family}-{seed}", "family": family, "seed": None if order else seed, "order": order,
            "status": "done", "bits_per_byte": bits, "loss": bits * math.log(2), "perplexity": 2**bits,
            "parameters": 10, "bytes": 40, "context": None, "training_rate": 5.0, "memory": None,
            "trained": {"step": 1, "tokens": 100, "seconds": 9.0}, "generation_rate": {"1": 3.0},
            "settings": {"training": {"valid_one_in": 1}},
            "recall": {"16": {"gain": 0.5, "error": 0.1}}, "curve": {"valid": list(valid), "train": []}}


def test_the_interval_is_students_t_by_hand():
    mean, half = interval([1.0, 2.0, 3.0])
    assert mean == 2 and half == pytest.approx(4.303 * 1.0 / math.sqrt(3))
    assert interval([5.0, 5.0, 5.0, 5.0]) == (5.0, 0.0)
    assert interval([5.0]) == (5.0, None)
    many = [float(n % 2) for n in range(200)]
    assert interval(many)[1] == pytest.approx(2.042 * 0.50125 / math.sqrt(200), rel=1e-3)


def test_a_crossing_lies_on_the_line_between_two_validations():
    points = [(100, 10, 3.0), (200, 20, 2.0), (300, 40, 1.0)]
    assert crossing(points, 2.5) == {"tokens": 150, "seconds": 15, "earlier": False}
    assert crossing(points, 1.25) == {"tokens": 275, "seconds": 35, "earlier": False}
    assert crossing(points, 5.0) == {"tokens": 100, "seconds": 10, "earlier": True}
    assert crossing(points, 1.0) is None and crossing([], 1.0) is None
    assert crossing([(1, 1, 3.0), (2, 2, 1.0), (3, 3, 4.0)], 2.0)["tokens"] == 1.5      # the first time, not the last


def test_the_best_is_first_and_who_overlaps_it_is_tied():
    records = [record("ngram", 2.0, order=2), record("ngram", 1.9, order=3)]
    records += [record("a", 1.00, 0), record("a", 1.02, 1), record("b", 1.03, 0), record("b", 1.01, 1)]
    records += [record("far", 3.0, 0), record("far", 3.0001, 1)]
    rows = summarise(plan("far", "b", "a"), records)
    assert [row["family"] for row in rows] == ["a", "b", "ngram", "far"]
    assert [row["tied"] for row in rows] == [False, True, False, False]
    assert rows[2]["order"] == 3 and rows[2]["bits_per_byte"] == 1.9
    text = as_text(rows, plan("far", "b", "a"))
    assert "1.0200 ± 0.1271 =" in text and "ngram (order 3)" in text and "tied" in text


def test_one_seed_has_no_interval_and_ties_nobody():
    one = plan("a", "b", seeds=1)
    rows = summarise(one, [record("ngram", 1.0, order=2), record("a", 1.0), record("b", 1.0)])
    assert not any(row["tied"] for row in rows)
    assert not overlap(rows[1], rows[2], "bits_per_byte")
    assert any("no interval" in note for note in notes(rows, one))


def test_the_minutes_at_which_the_n_gram_is_crossed_stand_in_the_table():
    level = math.log(2) * 1.9
    falls = [(0, 10, level + 1), (10, 130, level - 1)]
    stays = [(0, 10, level + 1), (10, 130, level + 0.5)]
    records = [record("ngram", 1.9, order=3), record("a", 1.5, 0, valid=falls), record("a", 1.5, 1, valid=stays),
               record("b", 2.5, 0, valid=stays), record("b", 2.5, 1, valid=stays), record("c", 1.4, 0, valid=falls[1:]),
               record("c", 1.4, 1, valid=falls[1:])]
    text = as_markdown(summarise(plan("a", "b", "c"), records), plan("a", "b", "c"))
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("|")}
    assert lines["a"].endswith("| 1.2 min (1 of 2 seeds) |")
    assert lines["b"].endswith("| not within 2 min |")
    assert lines["c"].endswith("| before 2.2 min |")


def test_a_family_that_failed_stands_last_with_its_reason():
    bad = {"name": "a-0", "family": "a", "seed": 0, "order": None, "status": "failed", "reason": "the loss became nan"}
    rows = summarise(plan("a", "b"), [record("ngram", 1.9, order=2), bad, record("b", 2.0), record("b", 2.0, 1)])
    assert [row["family"] for row in rows] == ["ngram", "b", "a"]
    assert "failed: the loss became nan" in as_text(rows, plan("a", "b"))


def test_a_family_of_which_one_seed_failed_has_a_row_and_a_note():
    bad = {"name": "a-1", "family": "a", "seed": 1, "order": None, "status": "failed", "reason": "no memory"}
    rows = summarise(plan("a"), [record("ngram", 1.9, order=2), record("a", 1.0), bad])
    assert rows[0]["family"] == "a" and rows[0]["half"] is None
    assert "a-1 failed: no memory" in notes(rows, plan("a"))


def test_an_infinite_loss_is_called_so():
    rows = summarise(plan("a"), [record("ngram", math.inf, order=2), record("a", 1.0), record("a", 1.1, 1)])
    assert "infinite" in as_text(rows, plan("a"))


def test_unknown_words_are_warned_of_in_the_notes_of_every_form():
    strange = plan("a", text={"train": COUNTS, "valid": {**COUNTS, "unknown": 7}, "tokenizer": "word"})
    rows = summarise(strange, [record("ngram", 2.0, order=2), record("a", 1.0), record("a", 1.1, 1)])
    warning = ("7 of the 100 held-out tokens are <unk>, and the words behind them cost nothing: bits per byte and "
               "perplexity a word cannot be compared with those of another vocabulary.")
    for said in (notes(rows, strange), as_text(rows, strange), as_markdown(rows, strange)):
        assert warning in said
    assert warning in Compared(Path("folder"), strange, [], rows).as_dict()["notes"]
    assert not any("<unk>" in note for note in notes(rows, plan("a")))
