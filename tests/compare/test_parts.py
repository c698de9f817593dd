"""One part chooses and another is reported; and what trials keep of each sentence."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from regard.compare.comparison import dry_run, report
from regard.compare.plan import Wanted, make_plan
from regard.compare.results_table import as_text
from regard.data.reading.shards import Counts, Shard
from regard.errors import RunError, SettingError
from regard.metrics.text_units import unit_ends
from regard.trained import load

from .conftest import SMALL

LINES = [f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}" for i in range(400)]
BY_LINE = {**SMALL, "data": {"documents": "line"}}
ASKED = {"families": ("rnn",), "seeds": 2, "files": ("lines.txt",), "settings": BY_LINE}


@pytest.fixture(autouse=True)
def lines(own_folder):
    Path("lines.txt").write_text("".join(f"{line}\n" for line in LINES))


def trials(folder="out"):
    return json.loads(Path(folder, "results.json").read_text())["trials"]


def kept(record):
    with np.load(Path("out", "trials", f"{record['name']}.npz"), allow_pickle=False) as file:
        return file["units"]


def test_a_text_of_ones_own_is_chosen_by_one_half_and_measured_on_the_other(quick):
    compared = quick(**ASKED)
    for record in trials():
        run = load(Path("out", "runs", record["name"]), "cpu")
        each = -run.score_lines(LINES[360:]).numpy()                         # the last tenth, line by line
        tokens = np.array([len(line) + 1 for line in LINES[360:]])           # characters, and the end
        assert record["loss"] == pytest.approx(each[1::2].sum() / tokens[1::2].sum(), rel=1e-5)
        assert record["valid_loss"] == pytest.approx(each[::2].sum() / tokens[::2].sum(), rel=1e-5)
        np.testing.assert_allclose(kept(record)[:, 0], each[1::2], rtol=1e-4)
        assert record["units"] == {"of": "documents"} and kept(record).shape == (20, 2)
    counted = [record for record in trials() if record["order"]]
    chosen = next(row for row in compared.rows if row["counted"])
    assert chosen["order"] == min(counted, key=lambda record: record["valid_loss"])["order"]
    text = as_text(compared.rows, compared.plan)
    assert "on one half of the held-out text" in text and "measured is the other half, by which nothing was" in text
    assert "favours" not in text and "halve" not in compared.plan.command("out")
    assert "one half of the held-out text; figures are of the other half" in Path("out", "report.html").read_text()
    assert not list(Path("out").rglob("test.json"))                          # the comparison measures by itself, once


def test_the_sums_of_what_is_kept_are_the_number_of_the_table(quick):
    quick(**ASKED)
    for record in trials():
        nats, bytes = kept(record).sum(0)
        assert nats / math.log(2) / bytes == pytest.approx(record["bits_per_byte"])
        assert bytes == sum(len(line.encode()) for line in LINES[361::2]) == pytest.approx(kept(record)[:, 1].sum())


def test_differences_stand_in_the_results_and_in_the_report(quick):
    compared = quick(**ASKED)
    told = json.loads(Path("out", "results.json").read_text())
    one, = told["differences"]
    assert {one["a"], one["b"]} == {"ngram", "rnn"} and one["comparisons"] == 1
    assert one["over_seeds"]["seeds"] == 2 and one["over_sentences"]["sentences"] == 20
    values = {row["family"]: row["values"] for row in told["table"]}
    apart = np.array(values[one["a"]]) - np.array(values[one["b"]])          # the n-gram has one value for both seeds
    assert one["difference"] == pytest.approx(np.median(apart))
    by_sentence = {}
    for row in told["table"]:
        own = [r for r in told["trials"] if r["family"] == row["family"] and r["order"] in (None, row.get("order"))]
        by_sentence[row["family"]] = np.mean([kept(r)[:, 0] for r in own], 0)
    per_sentence = by_sentence[one["a"]] - by_sentence[one["b"]]
    signs = np.random.default_rng(1).choice([-1, 1], (20_000, 20))
    chance = (np.abs(signs @ per_sentence) >= abs(per_sentence.sum()) - 1e-9).mean()
    assert one["over_sentences"]["p"] == pytest.approx(chance, abs=0.02)
    assert one["p"] == max(one["over_seeds"]["p"], one["over_sentences"]["p"])
    page = Path("out", "report.html").read_text()
    assert "<h2>Which differences are beyond the noise</h2>" in page and "sentences are here documents" in page
    assert "95% over seeds" in page and "95% over sentences" in page
    assert compared.as_dict()["differences"] == told["differences"]


def test_a_file_can_be_named_to_report_on(quick):
    Path("test.txt").write_text("the cat sat on the mat\nthe mat sat on the cat\n")
    asked = ASKED | {"settings": {**BY_LINE, "data": {"documents": "line", "test": ("test.txt",)}}, "seeds": 1}
    compared = quick(**asked)
    record = trials()[-1]
    each = load(Path("out", "runs", record["name"]), "cpu").score_lines(Path("test.txt").read_text().splitlines())
    assert record["loss"] == pytest.approx(-float(each.sum()) / (22 * 2 + 2), rel=1e-5)
    text = as_text(compared.rows, compared.plan)
    assert "on the validation text" in text and "what is measured is the test part" in text
    assert "the test part (test.txt), 46 tokens (44 bytes)" in Path("out", "report.html").read_text()
    assert "--set data.test=test.txt" in compared.plan.command("out")
    Path("test.txt").write_text("another test\n")
    with pytest.raises(SettingError, match="holds a comparison with text content"):
        quick(**asked | {"seeds": 2})


def test_what_is_too_small_to_divide_is_said_to_favour(quick):
    compared = quick(families=("rnn",), seeds=1)                             # 324 characters are held out
    text = as_text(compared.rows, compared.plan)
    assert "which favours it" in text and "too small to be divided: name other files with --test" in text
    assert "What is measured has only 2 such units: too few for sentences to tell families apart." in text
    assert "chosen and measured on the same held-out part" in dry_run(compared.plan, Path("out"))


def test_a_comparison_from_before_goes_on_undivided_and_says_so(quick):
    asked = ASKED | {"settings": {**BY_LINE, "data": {"documents": "line", "halve": "no"}}}
    quick(**asked)
    for file in Path("out", "trials").glob("*.npz"):                         # as it was when nothing of this was kept
        file.unlink()
    for record in trials():
        del record["units"]
        Path("out", "trials", f"{record['name']}.json").write_text(json.dumps(record))
    plan = json.loads(Path("out", "compare.json").read_text())
    del plan["settings"]["data"]["halve"], plan["text"]["test_files"]
    Path("out", "compare.json").write_text(json.dumps(plan))
    compared = quick(**ASKED | {"seeds": 3})
    assert quick.ran == ["rnn-2"] and compared.plan.text.get("measured_on") is None
    assert load(Path("out", "runs", "rnn-2"), "cpu").tables["data"]["halve"] is False      # though new runs are halved
    text = as_text(compared.rows, compared.plan)
    assert "begun before held-out data were divided" in text and "which favours it" in text
    assert "made before the counts of each sentence were kept: their sentences are not judged" in text
    one, = compared.as_dict()["differences"]
    assert one["over_sentences"] is None and one["p"] == one["over_seeds"]["p"]


def test_damaged_counts_are_told_with_their_cure(quick):
    quick(**ASKED | {"seeds": 1})
    Path("out", "trials", "rnn-0.npz").write_bytes(b"PK torn")
    with pytest.raises(RunError, match=r"rnn-0.npz is damaged .* remove it and rnn-0.json, and the trial is made"):
        report("out")
    np.savez(Path("out", "trials", "rnn-0.npz"), units=np.array([{"a": 1}], dtype=object))      # a pickle is not read
    with pytest.raises(RunError, match=r"rnn-0.npz is damaged"):
        report("out")


# -------------------------------------------------------------------------------------------------- units


def shard(tokens, ends):
    counts = Counts(tokens=tokens, documents=len(ends))
    return Shard(Path(), np.zeros(tokens, np.uint16), np.array(ends), counts, "", "")


def test_a_long_text_is_cut_into_stretches_and_many_documents_into_groups():
    ends, of = unit_ends(shard(30_000, [30_000]))
    assert of == "stretches of 1,024 tokens" and ends[0] == 1024 and ends[-1] == 30_000 and len(ends) == 30
    ends, of = unit_ends(shard(1000, [500, 1000]))
    assert of == "stretches of 256 tokens" and ends.tolist() == [256, 512, 768, 1000]
    ends, of = unit_ends(shard(30, range(3, 31, 3)))                  # ten: half of the least that is divided
    assert of == "documents" and ends.tolist() == list(range(3, 31, 3))
    ends, of = unit_ends(shard(10_000, range(2, 10_001, 2)))
    assert of == "groups of documents" and len(ends) == 2048 and ends[-1] == 10_000
    assert set(np.diff(ends)) == {4, 6} and len(unit_ends(shard(9_000_000, [9_000_000]))[0]) == 2048


def test_the_command_names_no_part_by_itself():
    plan = make_plan(Wanted(("lines.txt",), ("rnn",), steps=2, device="cpu", settings={"data": {"documents": "line"}}))
    assert plan.text["measured_on"] == "half" and plan.text["test"]["documents"] == 20
    assert re.search("parts +chosen on one half of the held-out text, measured on the other half", dry_run(
        plan, Path("out")))
