"""Translators side by side: a small comparison from pairs to report, and its rows by hand."""

import json
import re

import numpy as np
import pytest

from regard.compare import measure, translators, trial
from regard.compare.comparison import compare, dry_run, make_or_join_plan, report
from regard.compare.plan import ComparisonPlan, Entry, Wanted, make_plan
from regard.compare.results_table import as_markdown, as_text, notes
from regard.compare.rows import judge_rows, summarise
from regard.errors import SettingError
from regard.metrics.resampling import bleu_of

SMALL = {"training": {"batch": 64}, "model": {"width": 16, "context": 32},
         "rnn": {"hidden": 16}, "prefix": {"layers": 1, "heads": 2}}


@pytest.fixture(autouse=True)
def pairs(tmp_path):
    numbers = [["un", "deux", "trois", "quatre", "cinq", "six"], ["one", "two", "three", "four", "five", "six"]]
    for words, name in zip(numbers, ("fr", "en"), strict=True):
        lines = [" ".join(words[(i * 7 + n) % 6] for n in range(1 + i % 6)) for i in range(150)]
        (tmp_path / f"pairs.{name}").write_text("".join(f"{line} {i}\n" for i, line in enumerate(lines)))


@pytest.fixture
def quick(monkeypatch):
    for name, value in (("PAIRS", 12), ("TIMED", 4), ("LENGTHS", (8, 16, 64)), ("SHOWN", 2)):
        monkeypatch.setattr(translators, name, value)
    ran = []

    def here(folder, plan, each, stop):
        ran.append(each.name)
        trial.run_trial(folder, plan, each)

    def run(say=lambda text: None, **wanted):
        ran.clear()
        return compare(wish(**wanted), say=say, start=here)

    run.ran = ran
    return run


def wish(**options):
    return Wanted(("pairs.fr", "pairs.en"), **{**dict(
        families=("rnn", "prefix"), seeds=2, steps=2, settings=SMALL, device="cpu", out="out", task="translate"),
        **options})


def test_from_pairs_to_a_table_and_a_report(quick, tmp_path):
    said = []
    found = quick(say=said.append)
    assert quick.ran == ["rnn-0", "prefix-0", "rnn-1", "prefix-1"]         # no n-gram: it translates nothing
    assert any(re.match(r"1/4  rnn, seed 0: BLEU [\d.]+, chrF [\d.]+ · [\d,]+ tokens in", line) for line in said)
    rows = {row["family"]: row for row in found.rows}
    assert set(rows) == {"rnn", "prefix"} and all(len(row["values"]) == 2 for row in rows.values())
    assert found.rows[0]["bleu"] >= found.rows[1]["bleu"]                              # the best is first
    for row in rows.values():
        assert row["sentences"] == 12 and row["translation_rate"] > 0 and row["greedy_rate"] > 0
    assert rows["rnn"]["state"]["16"] == rows["rnn"]["state"]["64"] > 0   # a vector, however long the source
    assert rows["prefix"]["state"]["16"] > 0 and rows["prefix"]["state"]["64"] is None   # more than 32 are not read
    table, page = as_text(found.rows, found.plan), (tmp_path / "out" / "report.html").read_text()
    assert "BLEU" in table and "n-gram" not in table and "nrefs:1" in table
    assert "Translators of pairs.fr, pairs.en compared" in page and "fr-en" in page
    assert re.search(r"<strong>[\d.]+ \(-?[\d.]+ to [\d.]+, 95% over seeds\)</strong> BLEU", page)
    assert not re.search(r"""src\s*=(?!"data:)|href\s*=|@import|url\(|<script|https?://""", page)
    for heading in ("BLEU against tokens read", "Loss against time", "BLEU by the length of the source",
                    "Reading a source and writing as much", "What they make of the same sentences"):
        assert heading in page
    assert json.loads((tmp_path / "out" / "results.json").read_text())["task"] == "translate"


def test_it_goes_on_and_takes_another_family_in(quick):
    quick(seeds=1)
    quick(seeds=1, families=("rnn", "prefix", "rnn-attention"))
    assert quick.ran == ["rnn-attention-0"]
    again = report("out")
    assert {row["family"] for row in again.rows} == {"rnn", "prefix", "rnn-attention"}


def test_another_task_in_the_same_folder_is_refused(quick, tmp_path):
    quick(seeds=1)
    (tmp_path / "text.txt").write_text("a b c\n" * 200)
    with pytest.raises(SettingError, match="holds a comparison with task translate, not lm"):
        wanted = Wanted(("text.txt",), families=("rnn",), steps=2, out="out", device="cpu")
        make_or_join_plan(wanted, tmp_path / "out", lambda text: None)


def test_the_command_makes_the_same_plan():
    plan = make_plan(wish(params=200_000, settings={}))
    assert all(abs(entry.parameters / 200_000 - 1) <= 0.05 for entry in plan.entries)
    words = plan.command("out").split()
    assert words[:5] == ["regard", "compare", "translate", "pairs.fr", "pairs.en"] and "--orders" not in words
    assert "prefix" in dry_run(plan, "out") and plan.text["langs"] == "fr-en"


def test_what_cannot_be_compared_is_refused_at_once():
    with pytest.raises(SettingError, match="unknown family mamba"):
        make_plan(wish(families=("mamba",)))
    with pytest.raises(SettingError, match="none of the families"):
        make_plan(wish(settings={"model": {"decay": "head"}}))


# ----------------------------------------------------------------------------------------------- by hand


def plan_of(*families, seeds=2):
    counts = {"tokens": 100, "bytes": 100, "unknown": 3}
    entries = tuple(Entry(family, "about it", False, 10, {}) for family in families)
    return ComparisonPlan(("a.fr", "a.en"), {"minutes": 2.0}, None, seeds, (2,), {}, "cpu",
                {"train": counts, "valid": counts, "tokenizer": "bpe", "langs": "fr-en"}, entries, "translate")


def record(family, bleu, seed=0, signature="nrefs:1"):
    return {"name": f"{family}-{seed}", "family": family, "seed": seed, "order": None, "status": "done", "bleu": bleu,
            "chrf": 2 * bleu, "exact_match": 0.1, "signature": signature, "sentences": 7, "loss": 1.0,
            "perplexity": 2.7, "parameters": 10, "bytes": 40, "context": None, "training_rate": 5.0, "memory": None,
            "trained": {"step": 1, "tokens": 100, "seconds": 9.0}, "translation_rate": {"5": 3.0}, "greedy_rate": 4.0,
            "settings": {"training": {}}, "shorter": bleu + 1, "longer": None,
            "by_length": [{"words": "1-5", "bleu": bleu}], "curve": {"valid": [], "train": []}}


def judged(plan, records):
    rows = summarise(plan, records)
    judge_rows(plan, rows, records, {})
    return rows


def test_the_highest_bleu_is_first_and_who_is_within_its_noise_is_marked():
    plan = plan_of("low", "near", "top")
    records = [record("top", 30.0), record("top", 30.4, 1), record("near", 30.1), record("near", 30.2, 1),
               record("low", 20.0), record("low", 20.40001, 1)]
    rows = judged(plan, records)
    assert [row["family"] for row in rows] == ["top", "near", "low"]
    assert [row["tied"] for row in rows] == [False, True, False]
    assert rows[0]["shorter"] == pytest.approx(31.2) and rows[0]["by_length"] == {"1-5": pytest.approx(30.2)}
    lines = as_markdown(rows, plan).splitlines()
    assert lines[2].startswith("| top | 30.20 (27.66 to 32.74) | 60.40 | 1.000 | 31.2 / – | 10 | 1 | 9.0 s | 5 | 3 |")
    assert any("3 of the 100 held-out target tokens are <unk>" in note for note in notes(rows, plan))


def test_scores_with_other_signatures_are_not_passed_off_as_comparable():
    plan = plan_of("a", "b", seeds=1)
    rows = judged(plan, [record("a", 3.0), record("b", 2.0, signature="nrefs:2")])
    assert any("cannot be compared" in note for note in notes(rows, plan))


def test_halves_are_by_the_words_of_the_source():
    sources = ["a", "a b c d e f", "a b", "a b c d e"]
    texts = ["w x y z", "no", "w x y z", "no"]
    shorter, longer = translators.halves(sources, texts, ["w x y z"] * 4, "en")
    assert shorter == pytest.approx(100) and longer < 5
    assert translators.halves(["a"], ["x"], ["x"], "en")[0] is None


def test_what_validation_said_of_bleu_is_in_the_curve():
    rows = [{"tokens": 1, "seconds": 2.0, "valid_loss": 3.0, "valid_bleu": 4.0},
            {"tokens": 5, "seconds": 6.0, "train_loss": 1.0}]
    judged = "valid_bleu", "BLEU"
    assert measure.curve(rows, judged)["bleu"] == [[1, 2.0, 4.0]] and "bleu" not in measure.curve(rows[1:], judged)
    assert set(measure.curve(rows)) == {"valid", "train"}


# ------------------------------------------------------------------------------- parts, and what is kept


def test_half_of_the_held_out_pairs_is_reported_and_its_counts_are_kept(quick, tmp_path):
    names = ["pairs.fr", "pairs.en"]
    for name in names:
        (tmp_path / name).write_text((tmp_path / name).read_text() + "".join(
            f"un {i}\n" for i in range(150, 400)))
    found = quick(seeds=1)
    source = (tmp_path / "pairs.fr").read_text().splitlines()[360:]                       # the last tenth
    text = as_text(found.rows, found.plan)
    assert "best validation on one half of the held-out pairs: these are of the other half" in text
    for record in found.records:
        assert [each["source"] for each in record["translations"]] == source[1::2][:2]
        with np.load(tmp_path / "out" / "trials" / f"{record['name']}.npz", allow_pickle=False) as file:
            counts = file["units"]
        assert counts.shape == (12, 10) and record["units"] == {"of": "sentences"}
        assert counts[:, 1].tolist() == [len(line.split()) for line in source[1::2][:12]]      # words of the reference
        assert bleu_of(counts.sum(0)) == pytest.approx(record["bleu"])
    one, = found.as_dict()["differences"]
    assert one["over_seeds"] is None and one["over_sentences"]["sentences"] == 12
    assert "seeds are not judged" in text
