"""Whole comparisons, small, with the trials run in this process."""

import json
import re
import shutil
from pathlib import Path

import pytest

from regard.compare.comparison import in_a_process, read_records, report
from regard.compare.plan import Wanted, make_plan
from regard.compare.results_table import as_text
from regard.errors import Interrupted, RegardError, RegardNote, RunError, SettingError, TrainingStopped
from regard.trained import load

from .conftest import SMALL

BROKEN = """
from regard import SequenceLayer
from torch import nn

class Broken(SequenceLayer):
    "gives no numbers"
    def __init__(self, width):
        super().__init__()
        self.d_in = self.d_out = width
        self.w = nn.Linear(width, width)
    def start(self, batch, capacity=None, memory=None):
        return None
    def forward(self, x, state=None, lengths=None):
        {forward}
"""


@pytest.fixture(autouse=True)
def drawn_charts(request, monkeypatch):
    """One test draws real charts; to the others a chart is a chart."""
    if request.node.name != "test_a_comparison_from_text_to_report":
        monkeypatch.setattr("regard.compare.family_curves.draw", lambda chart: b"<svg></svg>")


def results(folder="out"):
    return json.loads(Path(folder, "results.json").read_text())


def test_a_comparison_from_text_to_report(quick):
    said = []
    compared = quick(say=said.append)
    assert quick.ran == ["ngram-order2", "ngram-order3", "rnn-0", "transformer-0", "rnn-1", "transformer-1"]
    bits = [row["bits_per_byte"] for row in compared.rows]
    assert bits == sorted(bits) and len(bits) == 3
    kept = results()
    for trial in kept["trials"]:
        assert trial["status"] == "done" and trial["bits_per_byte"] > 0 and trial["perplexity"] > 1
        assert trial["generation_rate"].keys() == {"1", "16"} and trial["training_rate"] > 0
        assert set(trial["recall"]) == {"16", "64", "256", "1024"}
        assert trial["machine"]["threads"] >= 1 and trial["curve"]["valid"]
    table = {row["family"]: row for row in kept["table"]}
    assert table["ngram"]["bytes"] > 0 and table["ngram"]["crosses"] is None
    best = min(trial["bits_per_byte"] for trial in kept["trials"] if trial["order"])
    assert table["ngram"]["bits_per_byte"] == best and table["ngram"]["interval"] is None
    assert table["ngram"]["tuning"] == {"tried": 2, "of": "orders", "given": {},
                                        "seconds": sum(t["trained"]["seconds"] for t in kept["trials"] if t["order"])}
    for family in ("rnn", "transformer"):
        row = table[family]
        own = [trial["bits_per_byte"] for trial in kept["trials"] if trial["family"] == family]
        middle, half = sum(own) / 2, 12.706 * abs(own[0] - own[1]) / 2          # of two seeds, as Student's t says
        assert row["values"] == own and row["bits_per_byte"] == pytest.approx(middle)
        assert row["interval"] == pytest.approx([middle - half, middle + half])
        assert row["tuning"]["tried"] == 1 and row["tuning"]["given"] == SMALL[family]
        assert row["crosses"]["of"] == 2 and row["state"]["8192"]["bytes"] > 0
    assert table["transformer"]["state"]["1024"]["bounded"] and not table["rnn"]["state"]["1024"]["bounded"]
    assert any(line.startswith("3/6  rnn, seed 0: ") and line.endswith("left") for line in said)
    assert kept["waiting"] == [] and "--steps 2 --seeds 2" in kept["command"]


def test_the_report_needs_nothing_but_itself_and_holds_it_all(quick):
    quick(seeds=1, families=("rnn",))
    page = Path("out", "report.html").read_text()
    assert not re.search(r"""src\s*=(?!"data:)|href\s*=|@import|url\(|<script|https?://""", page)
    for heading in ("Learning curves", "Cost against length", "Recall at distance", "What they write", "Settings",
                    "The n-gram, order by order", "How each column was measured"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count('<img alt="') >= 5 and "regard compare lm text.txt" in page
    assert "prefers-color-scheme: dark" in page and str(Path.cwd()) not in page
    assert Path("out", "table.md").read_text().startswith("| family | bits/byte | with the n-gram |")
    mixed = {row["family"]: row["mixed"] for row in json.loads(Path("out", "results.json").read_text())["table"]}
    assert mixed["ngram"] is None and 0 < mixed["rnn"] < 8


def test_what_is_done_is_kept_and_more_may_be_added(quick):
    quick(families=("rnn",), seeds=1)
    times = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*.safetensors")}
    said = []
    quick(say=said.append, families=("rnn",), seeds=1)
    assert quick.ran == [] and "3 of 3 trials in out are done and kept" in said
    quick(families=("rnn",), seeds=2, orders=(2, 3, 4))
    assert quick.ran == ["ngram-order4", "rnn-1"]
    assert times and all(path.stat().st_mtime_ns == time for path, time in times.items())


def test_an_interrupted_trial_goes_on_where_it_stopped(quick):
    import regard.training.loop as loop

    honest, calls = loop.validate, []

    def interrupted(job, position, clock):
        calls.append(position.step)
        if position.step == 4:
            job.checkpoints.save(position)
            raise Interrupted("stopped here")
        return honest(job, position, clock)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "validate", interrupted)
        with pytest.raises(Interrupted):
            quick(families=("rnn",), seeds=1, steps=6, settings=valid_every(2))
    assert calls == [2, 4] and not Path("out", "trials", "rnn-0.json").exists()
    quick(families=("rnn",), seeds=1, steps=6, settings=valid_every(2))
    assert quick.ran == ["rnn-0"]
    steps = [json.loads(line)["step"] for line in Path("out/runs/rnn-0/metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 2, 3, 4, 5, 6, 6]                                  # nothing before step 4 was done again
    trial = next(trial for trial in results()["trials"] if trial["name"] == "rnn-0")
    assert trial["status"] == "done" and trial["trained"]["step"] == 6


def valid_every(steps):
    return {**SMALL, "training": {**SMALL["training"], "valid_every": steps}}


def test_other_settings_in_the_same_folder_are_refused(quick):
    quick(families=("rnn",), seeds=1)
    with pytest.raises(SettingError, match="out holds a comparison with budget steps 2, not steps 3"):
        quick(families=("rnn",), seeds=1, steps=3)
    Path("other").mkdir()
    Path("other", "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="other holds something that is no comparison"):
        quick(out="other")


@pytest.mark.parametrize("module, forward, reason", [
    ("gives_nan", "return self.w(x) * float('nan'), state", "became nan at step 0"),
    ("falls_over", "raise ZeroDivisionError('by nothing')",
     r"ZeroDivisionError: by nothing \(see trials/falls-over-Broken-0.log\)"),
])
def test_a_family_that_fails_is_told_with_its_reason_and_the_others_go_on(quick, module, forward, reason):
    Path(f"{module}.py").write_text(BROKEN.replace("{forward}", forward))
    small = {**SMALL, f"{module}:Broken": {"layers": 1, "width": 8, "heads": 1}}
    compared = quick(families=(f"{module}:Broken", "rnn"), seeds=1, settings=small)
    last = compared.rows[-1]
    assert last["family"] == f"{module}:Broken" and re.search(reason, last["failed"][0]["reason"])
    assert compared.rows[0]["bits_per_byte"] is not None
    assert re.search(reason, Path("out", "report.html").read_text())
    assert re.search(reason, Path("out", "table.md").read_text())
    quick(families=("rnn",), seeds=1)
    assert quick.ran == [f"{module}-Broken-0".replace("_", "-")]                # a failure is tried again


def test_a_trial_whose_process_dies_does_not_end_the_others(quick, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("dies.py").write_text(BROKEN.replace("{forward}", "__import__('os').kill(__import__('os').getpid(), 9)"))
    plan = make_plan(Wanted(("text.txt",), ("dies:Broken",), seeds=1, steps=1, orders=(2,), device="cpu",
                            settings={"tokenizer": {"kind": "char"}}))
    plan.save(tmp_path)
    (tmp_path / "trials").mkdir()
    in_a_process(tmp_path, plan, plan.trials()[-1], stop=lambda: False)
    [record] = read_records(tmp_path, plan.trials()[-1:]).values()
    assert record["status"] == "failed"
    assert record["reason"] == "its process was killed by signal 9 (memory may have run out)"


def test_a_layer_of_ones_own_is_compared_like_any_other(quick):
    Path("fine_layer.py").write_text(BROKEN.replace("{forward}", "return self.w(x), None if state is None else state")
                                     .replace("return None", "return __import__('regard').State()"))
    size = {"layers": 1, "width": 8, "heads": 1, "context": 32}
    compared = quick(families=("fine_layer:Broken",), seeds=1, settings={"fine_layer:Broken": size})
    assert {row["family"] for row in compared.rows if row["bits_per_byte"]} == {"ngram", "fine_layer:Broken"}


def test_when_everything_fails_the_command_does(quick, monkeypatch):
    monkeypatch.setattr("regard.compare.trial.run_training", lambda order: 1 / 0)
    with pytest.raises(TrainingStopped, match="every trial failed: ZeroDivisionError"):
        quick(families=("rnn",), seeds=1)


def test_an_embedded_corpus_is_chosen_by_its_valid_part_and_measured_on_its_test_part(quick):
    wanted = {"families": ("rnn",), "seeds": 1, "files": ("ab",), "settings": {"rnn": SMALL["rnn"]}}
    compared = quick(**wanted)
    for record in results()["trials"]:
        run = load(Path("out", "runs", record["name"]), "cpu")
        parts = {part: run.score_shard(run.encode_files(["ab"], part=part)).loss for part in ("valid", "test")}
        assert record["loss"] == pytest.approx(parts["test"]) != pytest.approx(parts["valid"])
        assert record["valid_loss"] == pytest.approx(parts["valid"])
    counted = [record for record in results()["trials"] if record["order"]]
    chosen = next(row for row in compared.rows if row["counted"])
    assert chosen["order"] == min(counted, key=lambda record: record["valid_loss"])["order"]
    assert "measured is the test part, by which nothing was chosen" in as_text(compared.rows, compared.plan)
    assert "figures are of the test part" in Path("out", "report.html").read_text()
    plan = json.loads(Path("out", "compare.json").read_text())
    del plan["text"]["measured_on"], plan["sha256"]                   # as it was before there was a test part
    Path("out", "compare.json").write_text(json.dumps(plan))
    with pytest.raises(RegardError, match="measured_on"):
        quick(**wanted | {"seeds": 2})


def test_a_text_that_changed_after_the_plan_is_seen(quick, monkeypatch):
    monkeypatch.setattr("regard.data.reading.corpus.VERSION", 1)
    from regard.compare import trial

    honest = trial.train_or_resume

    def late(*given, **options):
        trained = honest(*given, **options)
        Path("text.txt").write_text("something else\n" * 200)
        return trained

    monkeypatch.setattr(trial, "train_or_resume", late)
    with pytest.raises(TrainingStopped, match="the text has changed since the comparison began"):
        quick(families=("rnn",), seeds=1)


def test_a_report_is_made_again_without_training(quick):
    quick(families=("rnn",), seeds=1)
    page = Path("out", "report.html").read_bytes()
    for name in ("report.html", "results.json", "table.md"):
        Path("out", name).unlink()
    report("out")
    assert Path("out", "report.html").read_bytes() == page
    Path("out", "trials", "rnn-0.json").write_text("{torn")
    with pytest.raises(RunError, match=r"rnn-0.json is damaged .* remove it, and the trial is made again"):
        report("out")


def test_a_report_can_be_made_before_all_trials_are_done(quick):
    quick(families=("rnn",), seeds=1)
    Path("out", "trials", "rnn-0.json").unlink()
    compared = report("out")
    assert compared.as_dict()["waiting"] == ["rnn-0"]
    assert "1 of 3 trials are still to come" in Path("out", "report.html").read_text()


def test_a_changed_digit_of_a_trial_is_refused(quick):
    quick(families=("rnn",), seeds=1)
    path = Path("out", "trials", "rnn-0.json")
    text = path.read_text()
    path.write_text(re.sub(r'(?<="bits_per_byte": )\d', lambda found: str(int(found[0]) ^ 1), text, count=1))
    assert path.read_text() != text
    with pytest.raises(RunError, match=r"rnn-0.json is damaged \(it does not match its SHA-256\): remove it"):
        report("out")
    path.unlink()
    quick(families=("rnn",), seeds=1)
    assert quick.ran == ["rnn-0"]


def test_a_changed_plan_is_used_with_a_note(quick):
    quick(families=("rnn",), seeds=1)
    path = Path("out", "compare.json")
    path.write_text(path.read_text().replace('"seeds": 1', '"seeds": 2'))
    with pytest.warns(RegardNote, match=r"compare.json was changed since it was written: it is used as it is now"):
        assert report("out").plan.seeds == 2


@pytest.mark.parametrize("what", ["runs", "trials", "runs/ngram-order2"])
def test_a_link_in_a_comparison_is_refused_and_what_it_points_to_left_alone(quick, what):
    quick(families=("rnn",), seeds=1, out="theirs")
    quick(families=("rnn",), seeds=1)
    shutil.rmtree(Path("out", what))
    Path("out", what).symlink_to(Path("theirs", what).absolute())
    Path("out", "trials", "ngram-order2.json").unlink(missing_ok=True)
    before = {path: path.stat().st_mtime_ns for path in Path("theirs").rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=f"{what} is a link, and a comparison is written only where it lies"):
        quick(families=("rnn",), seeds=1)
    assert {path: path.stat().st_mtime_ns for path in before} == before
