"""Medians, intervals, ties and crossings, by hand."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from regard.compare.comparison import Comparison
from regard.compare.language_models import find_crossing
from regard.compare.plan import ComparisonPlan, Entry
from regard.compare.results_table import as_markdown, as_text, notes
from regard.compare.rows import judge_rows, summarise

COUNTS = {"tokens": 100, "bytes": 100, "unknown": 0}


def entry(family, counted=False):
    return Entry(family, "about it", counted, None if counted else 10, {})


def plan(*families, seeds=2, **changes):
    entries = (entry("ngram", counted=True), *map(entry, families))
    return ComparisonPlan(**{**dict(files=("text.txt",), budget={"minutes": 2.0}, params=None, seeds=seeds,
                                      orders=(2, 3), settings={}, device="cpu", entries=entries,
                                      text={"train": COUNTS, "valid": COUNTS, "tokenizer": "char"}), **changes})


def record(family, bits, seed=0, order=None, valid=()):
    return {"name": f"{family}-{seed}", "family": family, "seed": None if order else seed, "order": order,
            "status": "done", "bits_per_byte": bits, "loss": bits * math.log(2), "perplexity": 2**bits,
            "parameters": 10, "bytes": 40, "context": None, "training_rate": 5.0, "memory": None,
            "trained": {"step": 1, "tokens": 100, "seconds": 9.0}, "generation_rate": {"1": 3.0},
            "settings": {"training": {"valid_one_in": 1}},
            "recall": {"16": {"gain": 0.5, "error": 0.1}}, "curve": {"valid": list(valid), "train": []}}


def judged(plan, records, units=None):
    rows = summarise(plan, records)
    found = judge_rows(plan, rows, records, units or {})
    return rows, found


def test_a_row_has_the_median_over_seeds_and_its_interval():
    values = [1.0, 1.5, 1.2, 1.1, 1.3, 9.0]                          # six seeds: from the least to the largest
    records = [record("ngram", 2.0, order=2), *(record("a", value, seed) for seed, value in enumerate(values))]
    rows, _ = judged(plan("a", seeds=6), records)
    assert rows[0]["bits_per_byte"] == pytest.approx(1.25) and rows[0]["interval"] == [1.0, 9.0]
    text = as_text(rows, plan("a", seeds=6))
    assert "1.2500 (1.0000 to 9.0000)" in text and "median of 6 seeds, in brackets its interval: 95% over seeds" in text


def test_settings_tried_stand_in_the_table():
    records = [record("ngram", 2.0, order=2), record("ngram", 1.9, order=3), record("a", 1.0), record("b", 1.0)]
    given = plan("a", "b", seeds=1, settings={"b": {"hidden": "7"}})
    rows, _ = judged(given, records)
    tuning = {row["family"]: row["tuning"] for row in rows}
    assert tuning["ngram"] == {"tried": 2, "of": "orders", "given": {}, "seconds": 18.0}
    assert tuning["b"] == {"tried": 1, "of": "", "given": {"hidden": "7"}, "seconds": 9.0}
    lines = {line.split(" | ")[0].strip("| "): line for line in as_markdown(rows, given).splitlines()}
    assert "| 2 orders |" in lines["ngram (order 3)"] and "| 1 |" in lines["a"] and "| 1 by --set |" in lines["b"]
    assert "Of b some settings were given by --set: how many were tried before is not known here." in notes(rows, given)


def test_a_crossing_lies_on_the_line_between_two_validations():
    points = [(100, 10, 3.0), (200, 20, 2.0), (300, 40, 1.0)]
    assert find_crossing(points, 2.5) == {"tokens": 150, "seconds": 15, "earlier": False}
    assert find_crossing(points, 1.25) == {"tokens": 275, "seconds": 35, "earlier": False}
    assert find_crossing(points, 5.0) == {"tokens": 100, "seconds": 10, "earlier": True}
    assert find_crossing(points, 1.0) is None and find_crossing([], 1.0) is None
    assert find_crossing([(1, 1, 3.0), (2, 2, 1.0), (3, 3, 4.0)], 2.0)["tokens"] == 1.5    # not the last


def test_the_best_is_first_and_who_is_within_its_noise_is_marked():
    """With three seeds each: b - a is 0.03, -0.01, 0.01; far - a about 2 and the same in all seeds."""
    records = [record("ngram", 2.0, order=2), record("ngram", 1.9, order=3)]
    for family, values in (("a", (1.00, 1.02, 1.01)), ("b", (1.03, 1.01, 1.02)), ("far", (3.0, 3.02, 3.01001))):
        records += [record(family, value, seed) for seed, value in enumerate(values)]
    three = plan("far", "b", "a", seeds=3)
    rows, found = judged(three, records)
    assert [row["family"] for row in rows] == ["a", "b", "ngram", "far"]
    assert [row["tied"] for row in rows] == [False, True, False, False]
    assert rows[2]["order"] == 3 and rows[2]["bits_per_byte"] == 1.9
    apart = np.array([0.03, -0.01, 0.01])
    t = apart.mean() / (apart.std(ddof=1) / math.sqrt(3))
    against = rows[1]["against_first"]
    assert against["difference"] == pytest.approx(-0.01) and against["p"] == pytest.approx(1 - t / math.sqrt(t**2 + 2))
    assert len(found) == 6 and {(each.a, each.b) for each in found if each.beyond} >= {("a", "far"), ("b", "far")}
    text = as_text(rows, three)
    assert re.search(r"1\.0200 \(\d\.\d{4} to \d\.\d{4}\) =", text) and "ngram (order 3)" in text
    assert "paired over seeds, has p >= 0.05 when corrected for all 6 pairs" in text
    assert "made before the counts of each sentence were kept" in text


def test_with_one_seed_sentences_speak_and_that_is_said():
    one = plan("a", "b", "c", seeds=1)
    hard = np.random.default_rng(0).normal(100, 30, 50)
    nats = {"ngram-0": hard + 40, "a-0": hard, "b-0": hard + np.tile([1.0, -0.9], 25), "c-0": hard + 20}
    units = {name: np.stack([own, np.full(50, 100.0)], 1) for name, own in nats.items()}
    values = {name: float(own.sum() / 5000 / math.log(2)) for name, own in nats.items()}
    rows, found = judged(one, [record("ngram", values["ngram-0"], order=2), *(
        record(family, values[f"{family}-0"]) for family in "abc")], units)
    assert [row["family"] for row in rows] == ["a", "b", "c", "ngram"]
    assert [row["tied"] for row in rows] == [False, True, False, False]
    assert all(each.over_seeds is None and each.over_sentences.sentences == 50 for each in found)
    text = as_text(rows, one)
    assert "seeds are not judged" in text and "paired over sentences, has p" in text and "made before" not in text


def test_one_seed_without_its_sentences_ties_nobody():
    one = plan("a", "b", seeds=1)
    rows, found = judged(one, [record("ngram", 1.0, order=2), record("a", 1.0), record("b", 1.0)])
    assert not any(row["tied"] for row in rows) and all(each.p is None for each in found)
    assert any("no interval" in note for note in notes(rows, one)) and not any("within" in n for n in notes(rows, one))


def test_the_minutes_at_which_the_n_gram_is_crossed_stand_in_the_table():
    level = math.log(2) * 1.9
    falls = [(0, 10, level + 1), (10, 130, level - 1)]
    stays = [(0, 10, level + 1), (10, 130, level + 0.5)]
    records = [record("ngram", 1.9, order=3), record("a", 1.5, 0, valid=falls), record("a", 1.5, 1, valid=stays),
               record("b", 2.5, 0, valid=stays), record("b", 2.5, 1, valid=stays), record("c", 1.4, 0, valid=falls[1:]),
               record("c", 1.4, 1, valid=falls[1:])]
    text = as_markdown(judged(plan("a", "b", "c"), records)[0], plan("a", "b", "c"))
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("|")}
    assert lines["a"].endswith("| 1.2 min (1 of 2 seeds) |")
    assert lines["b"].endswith("| not within 2 min |")
    assert lines["c"].endswith("| before 2.2 min |")


def test_a_family_that_failed_stands_last_with_its_reason():
    bad = {"name": "a-0", "family": "a", "seed": 0, "order": None, "status": "failed", "reason": "the loss became nan"}
    rows, _ = judged(plan("a", "b"), [record("ngram", 1.9, order=2), bad, record("b", 2.0), record("b", 2.0, 1)])
    assert [row["family"] for row in rows] == ["ngram", "b", "a"]
    assert "failed: the loss became nan" in as_text(rows, plan("a", "b"))


def test_a_family_of_which_one_seed_failed_has_a_row_and_a_note():
    bad = {"name": "a-1", "family": "a", "seed": 1, "order": None, "status": "failed", "reason": "no memory"}
    rows, _ = judged(plan("a"), [record("ngram", 1.9, order=2), record("a", 1.0), bad])
    assert rows[0]["family"] == "a" and rows[0]["interval"] is None
    assert "a-1 failed: no memory" in notes(rows, plan("a"))


def test_an_infinite_loss_is_called_so():
    rows, _ = judged(plan("a"), [record("ngram", math.inf, order=2), record("a", 1.0), record("a", 1.1, 1)])
    assert "infinite" in as_text(rows, plan("a")) and rows[1]["against_first"]["p"] is None and not rows[1]["tied"]


def test_unknown_words_are_warned_of_in_the_notes_of_every_form():
    strange = plan("a", text={"train": COUNTS, "valid": {**COUNTS, "unknown": 7}, "tokenizer": "word"})
    rows, _ = judged(strange, [record("ngram", 2.0, order=2), record("a", 1.0), record("a", 1.1, 1)])
    warning = ("7 of the 100 held-out tokens are <unk>, and the words behind them cost nothing: bits per byte and "
               "perplexity a word cannot be compared with those of another vocabulary.")
    for said in (notes(rows, strange), as_text(rows, strange), as_markdown(rows, strange)):
        assert warning in said
    assert warning in Comparison(Path("folder"), strange, [], rows).as_dict()["notes"]
    assert not any("<unk>" in note for note in notes(rows, plan("a")))


def test_the_order_is_chosen_by_validation_and_its_own_units_are_judged():
    """Order 2 is better on the text that chooses, order 3 on the text that is reported: order 2 stands in the table."""
    chosen, other = record("ngram", 2.0, order=2), record("ngram", 1.0, order=3)
    records = [chosen | {"name": "two", "valid_loss": 0.5}, other | {"name": "three", "valid_loss": 0.9}]
    records.append(record("a", 1.5) | {"valid_loss": 0.7})
    nats = {"two": 2.0, "three": 1.0, "a-0": 1.5}
    units = {name: np.full((10, 2), [value * math.log(2), 1.0]) for name, value in nats.items()}
    for order in (records, records[::-1]):
        rows, (found,) = judged(plan("a", seeds=1), order, units)
        assert [(row["family"], row["bits_per_byte"]) for row in rows] == [("a", 1.5), ("ngram", 2.0)]
        assert rows[1]["order"] == 2 and found.difference == pytest.approx(-0.5)
        assert (found.over_sentences.low, found.over_sentences.high) == pytest.approx((-0.5, -0.5))
