"""A whole `regard scale`, small: runs, stop and go on, refusals, and what is written."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.errors import Interrupted, RunError, SettingError
from regard.scale import forecast, ladder
from regard.scale.forecast import ScaleForecast, forecast_axis, scale
from regard.scale.forecast_page import as_text, tell_best, tell_width
from regard.scale.ladder import Rung, ScalePlan, ScaleRequest, affordable_steps
from regard.scale.power_law import Interval

TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(400))
SMALL = {"tokenizer": {"kind": "char"}, "model": {"context": 16}, "training": {"batch": 4, "threads": 1}}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("regard.scale.forecast_page.draw", lambda chart, kind: b"<svg></svg>")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)


def request(**more):
    return ScaleRequest(("text.txt",), **{"family": "rnn", "steps": 64, "params": 3000, "settings": SMALL,
                                          "device": "cpu", "out": "out", **more})


def test_every_axis_from_text_to_page():
    said = []
    found = scale(request(), say=said.append)
    rungs = found.plan.rungs()
    assert sorted({rung.steps for rung in rungs}) == [8, 16, 32, 64] and len(rungs) == 14
    assert sorted({rung.share for rung in rungs}) == [0.25, 0.5, 1.0]
    half, middle, twice = sorted({rung.parameters for rung in rungs})
    assert half == pytest.approx(middle / 2, rel=0.06) and twice == pytest.approx(2 * middle, rel=0.06)
    kept = json.loads(Path("out/scale.json").read_text())
    assert [each["axis"] for each in kept["forecasts"]] == ["minutes", "size", "data"]
    assert len(kept["runs"]) == 14 and all(run["loss"] > 0 for run in kept["runs"])
    minutes = kept["forecasts"][0]
    longest = [run["loss"] for run in kept["runs"]
               if (run["steps"], run["parameters"], run["share"]) == (64, middle, 1)]
    assert minutes["now"] == pytest.approx(sum(longest) / 3) and len(minutes["points"]) == 10
    assert minutes["more"]["low"] < minutes["more"]["median"] < minutes["more"]["high"]
    assert {path.name for path in Path("out").iterdir()} == {
        "plan.json", "runs", "scale.json", "scale.html", *(f"{axis}-loss.{kind}" for axis in ladder.AXES
                                                           for kind in ("svg", "png"))}
    assert all(path.suffix == ".json" for path in Path("out/runs").iterdir())             # weights are not kept
    assert any(line.startswith("14/14  64 steps") and "left" in line for line in said)
    text = as_text(found)
    assert f"ten times the minutes: loss {minutes['more']['median']:.3f} (" in text and "most" in text
    page = Path("out/scale.html").read_text()
    assert "ten times the data: loss" in page and "How the interval is made" in page and "<script" not in page


def test_what_was_stopped_goes_on_with_the_same_numbers(monkeypatch):
    asked = request(axes=("minutes",))
    whole = scale(asked, say=lambda line: None)
    calls = []

    @contextmanager
    def stop_late():
        yield lambda: calls.append(0) or len(calls) > 8 + 8 + 5                    # in the third run, after 5 steps

    with monkeypatch.context() as patch:
        patch.setattr("regard.training.loop.stop_signals", stop_late)
        with pytest.raises(Interrupted, match=r"stopped during 16 steps, .*; 2 of 10 runs are done and kept: go on "
                                              "with the same command"):
            scale(request(axes=("minutes",), out="other"), say=lambda line: None)
    assert len(list(Path("other/runs").glob("*.json"))) == 2
    said, ran = [], []
    real = forecast.run_rung
    monkeypatch.setattr(forecast, "run_rung", lambda *given: ran.append(given[2]) or real(*given))
    again = scale(request(axes=("minutes",), out="other"), say=said.append)
    assert "2 of 10 runs in other are done and kept" in said and len(ran) == 8
    assert [run["loss"] for run in again.records] == [run["loss"] for run in whole.records]
    ran.clear()
    scale(asked, say=lambda line: None)
    assert not ran                                                                 # nothing is left to do


def test_a_translator_is_forecast_by_its_loss_and_by_bleu(monkeypatch, tmp_path):
    monkeypatch.setattr(ladder, "LENGTHS", {8: 1, 2: 1, 1: 2})
    words = ["un deux", "deux trois", "trois un", "un un", "deux un deux"]
    english = str.maketrans({"u": "o", "d": "t", "x": "w"})
    lines = [words[n % 5] + " " + words[n * 3 % 5] for n in range(300)]
    (tmp_path / "book.fr").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "book.en").write_text("".join(f"{line.translate(english)}\n" for line in lines))
    asked = ScaleRequest(("book.fr", "book.en"), task="translate", family="rnn-attention", steps=64, axes=("minutes",),
                         settings={"tokenizer": {"kind": "word"}, "training": {"batch": 32, "threads": 1},
                                   "data": {"drop_duplicates": False}, "model": {"width": 8, "hidden": 12}},
                         device="cpu", out="out")
    found = scale(asked, say=lambda line: None)
    assert found.axes[0].quantity == "loss" and {each.quantity for each in found.axes} <= {"loss", "bleu"}
    assert all(0 <= run["bleu"] <= 100 for run in found.records) and len(found.records) == 4
    assert found.axes[0].more.median < found.axes[0].now
    assert all(0 <= each.more.low <= each.more.high <= 100 for each in found.axes[1:])
    assert "BLEU" in as_text(found)


def test_a_score_that_has_not_begun_is_not_forecast():
    plan = plan_of(task="translate", axes=["minutes"])
    records = [{"steps": rung.steps, "parameters": 100, "share": 1.0, "loss": 4.0 - rung.steps / 64, "bleu": 0.5}
               for rung in plan.rungs()]
    assert [each.quantity for each in forecast.fit_axes(plan, records)] == ["loss"]
    shown = ScaleForecast(Path("out"), plan, records, forecast.fit_axes(plan, records))
    assert "BLEU is 0.5 yet: too early to say where it goes; more --minutes help" in as_text(shown)
    risen = [{**record, "bleu": 20.0 + record["steps"] / 4} for record in records]
    assert [each.quantity for each in forecast.fit_axes(plan, risen)] == ["loss", "bleu"]


def test_a_folder_of_other_settings_another_text_or_no_scaling_is_refused():
    scale(request(axes=("minutes",)), say=lambda line: None)
    with pytest.raises(SettingError, match="out holds a scaling with steps 64, not 128: use the same settings"):
        scale(request(axes=("minutes",), steps=128), say=lambda line: None)
    Path("text.txt").write_text(TEXT + "the end\n")
    with pytest.raises(RunError, match="the text has changed since out began"):
        scale(request(axes=("minutes",)), say=lambda line: None)
    next(Path("out/runs").iterdir()).write_text("{}")
    Path("text.txt").write_text(TEXT)
    Path("out/plan.json").write_text(Path("out/plan.json").read_text().replace('"steps": 64', '"steps": 65', 1))
    with pytest.raises(RunError, match=r"plan\.json is damaged"):
        scale(request(axes=("minutes",)), say=lambda line: None)
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("")
    with pytest.raises(RunError, match="full holds something that is no scaling"):
        scale(request(out="full"), say=lambda line: None)


@pytest.mark.parametrize(("more", "said"), [
    (dict(minutes=1.0), "--minutes and --steps: one budget; leave one of them out"),
    (dict(minutes=0.0, steps=None), "--minutes 0: must be above 0"),
    (dict(steps=10), "--steps 10: the longest run has at least 64, so that the shortest has 8"),
    (dict(axes=("minutes", "width")), "--axes width: there is no such axis; name some of minutes, size, data"),
    (dict(axes=()), "--axes: name at least one of minutes, size, data"),
    (dict(family="ngram"), "--family ngram: it is counted, so minutes and size change nothing; choose another"),
    (dict(settings={"training": {"seed": 3}}), "training.seed: `regard scale` chooses it for each run; leave it out"),
    (dict(settings={"data": {"train_share": 0.5}}),
     "data.train_share: `regard scale` chooses it for each run; leave it out"),
    (dict(settings={"modle": {}}), "unknown table [modle]: did you mean model?"),
])
def test_nonsense_is_refused_in_one_line(more, said):
    with pytest.raises(SettingError) as refused:
        scale(request(**more), say=lambda line: None)
    assert str(refused.value) == said and not Path("out").exists()


def test_a_shape_that_no_other_size_has_is_refused():
    with pytest.raises(SettingError, match=r"--axes size makes model\.hidden = .*, not 12: leave it out"):
        scale(request(params=None, settings={**SMALL, "model": {"context": 16, "hidden": 12, "width": 64}}),
              say=lambda line: None)


def test_a_model_too_small_to_be_halved_is_refused():
    with pytest.raises(SettingError, match=r"--axes size: no transformer has half or twice \d,\d+ parameters"):
        scale(request(family="transformer", params=5000), say=lambda line: None)


# ------------------------------------------------------------------------------------------------ parts


def plan_of(**more):
    given = {"axes": ["minutes", "size", "data"], "task": "lm", **more}
    return ScalePlan(given, 64, {"100": {}, "50": {}, "200": {}}, 100, {}, {"tokens": 1000},
                     {"50": 0.5, "100": 1.0, "200": 2.0})


def test_the_minutes_buy_as_many_steps_as_fit_beside_the_overhead():
    plan = plan_of()
    steps = affordable_steps(plan, left=10_000.0, overhead=5.0, minutes=200.0)
    seconds = sum(rung.steps / 64 * steps * plan.step_seconds[str(rung.parameters)] for rung in plan.rungs())
    assert 0.9 * 10_000 < seconds + 5 * len(plan.rungs()) < 10_000
    with pytest.raises(SettingError, match=r"--minutes 2: too little for 14 runs .*; give --minutes \d+ at least"):
        affordable_steps(plan, left=100.0, overhead=5.0, minutes=2.0)


def test_a_step_of_every_size_is_timed_and_a_run_fits_the_minutes(monkeypatch):
    made = []
    monkeypatch.setattr(ladder, "time_sizes", lambda plan: (dict.fromkeys(plan.models, 0.01), 1))
    monkeypatch.setattr(forecast, "time_overhead", lambda plan, corpus: 0.5)
    monkeypatch.setattr(forecast, "run_rungs", lambda folder, plan, corpus, say: made.append(plan) or [])
    monkeypatch.setattr(forecast, "write_forecast", lambda *given: None)
    scale(request(steps=None, minutes=5.0), say=lambda line: None)
    (plan,) = made
    seconds = sum(0.5 + 0.01 * rung.steps for rung in plan.rungs())
    assert 240 < seconds < 300 and plan.training["threads"] == 1 and plan.step_seconds


def test_runs_of_an_axis_differ_along_it_alone():
    plan = plan_of()
    records = [{"steps": rung.steps, "parameters": rung.parameters, "share": rung.share, "loss": 2.0}
               for rung in plan.rungs()]
    lengths = [8] * 2 + [16] * 2 + [32] * 3 + [64] * 3
    assert [x for x, _ in forecast.points_of(plan, records, "minutes", "loss")] == lengths
    assert [x for x, _ in forecast.points_of(plan, records, "size", "loss")] == [50, 100, 100, 100, 200]
    assert [x for x, _ in forecast.points_of(plan, records, "data", "loss")] == [250, 500, 1000, 1000, 1000]


def test_a_score_is_fitted_as_what_is_missing_to_a_hundred():
    losses = [(x, 20.0 + 30.0 * (x / 80)**-0.5) for x in (10.0, 20.0, 40.0, 80.0)]
    loss = forecast_axis("minutes", "loss", losses, 80.0, 0.005)
    score = forecast_axis("minutes", "bleu", [(x, 100 - y) for x, y in losses], 80.0, 0.005)
    assert score.more.median == pytest.approx(100 - loss.more.median) and score.now == pytest.approx(100 - loss.now)
    assert score.more.low == pytest.approx(100 - loss.more.high) and score.gain == pytest.approx(loss.gain)


def test_the_axis_that_pays_most_is_named_with_its_doubt():
    def axis(name, median, width):
        found = forecast_axis(name, "loss", [(1.0, 3.0), (2.0, 2.0)], 2.0, 0.005)
        return type(found)(**{**vars(found), "more": Interval(median, median - width, median + width)})

    assert list(tell_best([axis("minutes", 1.5, 0.1), axis("data", 1.0, 0.1)])) == ["what pays most: data"]
    assert list(tell_best([axis("minutes", 1.5, 0.1), axis("data", 1.6, 0.1)])) == [
        "what pays most: minutes (its interval overlaps that of data)"]
    assert list(tell_best([axis("minutes", 2.5, 0.1), axis("data", 2.6, 0.1)])) == ["none of them lowers the loss"]
    assert list(tell_width([axis("minutes", 2.5, 0.05), axis("data", 2.6, 1.0)])) == []
    (line,) = tell_width([axis("minutes", 2.5, 0.5)])
    assert line.startswith("the interval of ten times the minutes is wide (20% to either side)")


def test_names_of_runs_tell_them_apart():
    assert Rung(8, 100, 0.5, 1).name == "8-steps-100-parameters-0.5-data-seed-1"
    assert Rung(8, 100, 0.5, 1).label == "8 steps, 100 parameters, 0.5 of the data, seed 1"
