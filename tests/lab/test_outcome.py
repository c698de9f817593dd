"""Which run a card tells of, what a flip is compared with, and concluding again without measuring."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from regard.errors import RunError
from regard.lab import outcome, runner
from regard.lab.experiment import Arm, Chart, Experiment, Line, Rule
from regard.lab.outcome import cards, conclude, did_change, flip_told, redraw
from regard.lab.results import kind_of, open_results
from regard.lab.verdict import FAILS, HOLDS, UNCLEAR

FULL, QUICK = runner.Plan(5, workers=1), runner.Plan(3, quick=True, workers=1)
FLIPPED, QUICK_FLIPPED = runner.Plan(5, flipped=True, workers=1), runner.Plan(3, True, flipped=True, workers=1)


def sized(full=2.0, quick=2.0, flipped=0.0, name="sized", charts=1):
    """A claim whose number depends on the size of the run, and on whether it is flipped."""

    def run(setting):
        return {"x": (flipped if setting.flipped else quick if setting.quick else full) + setting.seed / 1000}

    def drawn(seeds):
        return [Chart(f"chart {at}", "x", "y", [Line("a", [1], [[seed["a"]["x"]] for seed in seeds])])
                for at in range(charts)]

    return Experiment(name, 98, "Sized", "It is more than one.", "nowhere", "x > 1", "less", "takes it away",
                      (Arm("a", run),), (Rule("x is", lambda seed: seed["a"]["x"], above=1),), drawn)


def ran(experiment, plan, folder):
    assert runner.run([experiment], plan, folder, lambda text: None) == []
    return conclude(experiment, open_results(folder, experiment, plan.device), plan)


# --------------------------------------------------------------------------------------------- quick and full


def tells_of_the_largest(folder):
    one = sized(full=2.0, quick=0.5)
    assert ran(one, QUICK, folder)["verdict"] == FAILS and cards(folder)[0]["quick"]
    svg = (folder / "cpu" / "sized-1.svg").read_bytes()
    first = ran(one, FULL, folder)
    assert first["verdict"] == HOLDS and first["smaller_than"] is None and first["plots"]
    assert (folder / "cpu" / "sized-1.svg").read_bytes() != svg
    kept = (folder / "cpu" / "sized-1.svg").read_bytes()
    for smaller in (QUICK, runner.Plan(3, workers=1)):
        own = ran(one, smaller, folder)                              # tells its own verdict ...
        assert own["verdict"] == (FAILS if smaller.quick else HOLDS) and own["seeds"] == 3
        assert own["smaller_than"] == "full, 5 seeds" and own["table"]["rows"] and not own["plots"]
        card = cards(folder)[0]                                      # ... and leaves the card
        assert (card["verdict"], card["quick"], card["seeds"]) == (HOLDS, False, 5)
        assert card["command"] == "regard lab run sized --seeds 5"
        assert (folder / "cpu" / "sized-1.svg").read_bytes() == kept
    assert ran(one, runner.Plan(6, workers=1), folder)["smaller_than"] is None
    assert cards(folder)[0]["seeds"] == 6


def test_a_card_tells_of_the_largest_run_that_is_complete(tmp_path):
    tells_of_the_largest(tmp_path)


def test_a_card_that_told_of_the_latest_run_would_be_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(outcome, "_size", lambda told: (True, 0))
    with pytest.raises(AssertionError):
        tells_of_the_largest(tmp_path)


def test_where_and_when_are_those_of_the_run_that_the_card_tells_of(tmp_path, monkeypatch):
    one = sized()
    for plan, day in ((FULL, "2020-01-01"), (QUICK, "2021-01-01")):
        monkeypatch.setattr("regard.lab.results.where", lambda device, day=day: {"device": device, "when": day})
        assert ran(one, plan, tmp_path)["where"]["when"] == day
    assert cards(tmp_path)[0]["when"] == "2020-01-01"


# ----------------------------------------------------------------------------------------------------- flips


def keeps_flips_of_another_size(folder):
    one = sized(full=2.0, quick=2.0, flipped=0.0)
    ran(one, FULL, folder)
    assert ran(one, QUICK_FLIPPED, folder)["unflipped"] is None
    card = cards(folder)[0]
    assert card["flip_told"] == "fails (quick, 3 seeds); not run at that size as it is"
    ran(one, QUICK, folder)                                          # comes later, and is what there is to compare with
    ran(one, FULL, folder)
    card = cards(folder)[0]
    assert card["flipped"]["unflipped"] == HOLDS and did_change(card["flipped"]) is True
    assert not card["quick"] and card["flip_told"] == "holds -> fails (quick, 3 seeds)"
    ran(one, FLIPPED, folder)
    assert cards(folder)[0]["flip_told"] == "holds -> fails"
    assert ran(one, QUICK_FLIPPED, folder)["smaller_than"] == "full, 5 seeds"
    assert not cards(folder)[0]["flipped"]["quick"]


def test_a_flip_of_another_size_is_kept_and_compared_with_a_run_of_its_own_size(tmp_path):
    keeps_flips_of_another_size(tmp_path)


def test_a_flip_compared_with_a_run_of_another_size_would_be_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(outcome, "_compare_flipped", lambda experiment, kept: (kept.record.get("flipped") or {}).update(
        unflipped=kept.record.get("verdict")))
    with pytest.raises(AssertionError):
        keeps_flips_of_another_size(tmp_path)


def test_a_flip_is_judged_against_the_verdict_of_its_own_size_even_where_the_card_says_otherwise(tmp_path):
    one = sized(full=2.0, quick=0.5, flipped=0.0)
    for plan in (FULL, QUICK, QUICK_FLIPPED):
        ran(one, plan, tmp_path)
    card = cards(tmp_path)[0]
    assert card["verdict"] == HOLDS
    assert card["flip_told"] == "fails -> fails (quick, 3 seeds): flipping did not change it"


def test_a_flip_alone_has_an_outcome(tmp_path):
    own = ran(sized(), FLIPPED, tmp_path)
    assert own["verdict"] == FAILS and own["unflipped"] is None and cards(tmp_path) == []


def test_what_a_flip_did_is_told_in_a_few_words():
    def told(verdict, unflipped, **more):
        return flip_told({"seeds": 5, "flipped": {"verdict": verdict, "unflipped": unflipped, "seeds": 5, **more}})

    assert flip_told({"flipped": None}) == "not run"
    assert told(FAILS, HOLDS) == "holds -> fails"
    assert told(UNCLEAR, HOLDS, quick=True) == "holds -> unclear (quick)"
    assert told(HOLDS, HOLDS) == "holds -> holds: flipping did not change it"
    assert flip_told({"flipped": {"verdict": FAILS}}) == "fails; not run at that size as it is"    # older


# ------------------------------------------------------------------------------------------ without measuring


def test_everything_is_worked_out_again_from_what_is_kept(tmp_path):
    one = sized()
    for plan in (FULL, FLIPPED):
        ran(one, plan, tmp_path)
    file, picture = tmp_path / "cpu" / "sized.json", tmp_path / "cpu" / "sized-1.png"
    first = json.loads(file.read_text())
    bare = {name: first[name] for name in ("version", "arms", "ran")}
    file.write_text(json.dumps(bare))                                # as if it had ended before the conclusion
    picture.unlink()
    assert redraw([one], tmp_path) == []
    assert json.loads(file.read_text()) == first and picture.exists()


def test_seconds_are_added_up_exactly_so_that_no_order_of_the_arms_changes_a_file(tmp_path):
    """Keys come in an order that differs between two processes; sums of floats depend on it, exact ones do not."""
    one = sized()
    ran(one, FULL, tmp_path)
    kept = open_results(tmp_path, one, "cpu")
    measured = [0.1, 0.7, 1e15, -1e15, 0.05]                          # added up from the left: 0.05 or 0.925
    for turn in range(5):
        for at, arm in enumerate(kept.arms.values()):
            arm["seconds"] = measured[(at + turn) % 5]
        assert kept.seconds(one, FULL.settings) == float(sum(map(Fraction, measured)))


def test_the_seconds_of_the_results_in_the_tree_are_those_that_a_report_writes():
    for path in sorted((Path(outcome.__file__).parents[2] / "lab" / "results").glob("*/*.json")):
        record = json.loads(path.read_text())
        for told, flipped in ((record, False), (record.get("flipped") or {}, True)):
            if "seconds" in told:
                plan = runner.Plan(told["seeds"], told["quick"], path.parent.name, flipped)
                kinds = {kind_of(setting) for setting in plan.settings}
                seeds = {"once", *(f"seed {setting.seed}" for setting in plan.settings)}
                exact = sum(Fraction(arm["seconds"]) for key, arm in record["arms"].items()
                            if key.split(" \u00b7 ", 2)[1] in seeds and key.split(" \u00b7 ", 2)[2] in kinds)
                assert told["seconds"] == round(float(exact), 1), path


def test_results_of_a_device_that_is_not_here_are_concluded_and_run_asks_for_no_device(tmp_path, monkeypatch):
    one = sized()
    ran(one, FULL, tmp_path)
    (tmp_path / "cpu").rename(tmp_path / "cuda")
    asked = []
    monkeypatch.setattr(runner, "pick_device", asked.append)
    plan = runner.Plan(5, device="cuda", workers=1)
    assert runner.run([one], plan, tmp_path, lambda text: None) == [] and asked == []
    assert redraw([one], tmp_path) == []
    assert cards(tmp_path)[0]["command"] == "regard lab run sized --seeds 5 --device cuda"
    runner.run([one], runner.Plan(6, device="cuda", minutes=0), tmp_path, lambda text: None)
    assert asked == ["cuda"]


def test_results_of_other_code_are_named_and_left_alone(tmp_path):
    one = sized()
    ran(one, FULL, tmp_path)
    file = tmp_path / "cpu" / "sized.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": "other"}))
    before = file.read_bytes()
    assert redraw([one], tmp_path) == [("sized", "cpu")] and file.read_bytes() == before


def test_a_chart_is_drawn_again_only_if_it_would_differ_and_goes_when_it_is_no_longer_made(tmp_path, monkeypatch):
    ran(sized(charts=2), FULL, tmp_path)
    folder = tmp_path / "cpu"
    (folder / "sized-1.svg").write_text("kept as it is")
    (folder / "sized-other-3.svg").write_text("of another experiment")
    ran(sized(charts=1), FULL, tmp_path)
    assert (folder / "sized-1.svg").read_text() == "kept as it is"
    assert sorted(path.name for path in folder.glob("*.svg")) == ["sized-1.svg", "sized-other-3.svg"]
    monkeypatch.setattr(outcome, "drawing", lambda chart: "by other code")
    ran(sized(charts=1), FULL, tmp_path)
    assert (folder / "sized-1.svg").read_text() != "kept as it is"


def test_rules_and_charts_that_ask_for_what_no_arm_gave_are_told_in_a_line(tmp_path):
    one = sized()
    wrong = Experiment(**{**vars(one), "rules": (Rule("y is", lambda seed: seed["a"]["y"], above=1),)})
    with pytest.raises(RunError, match=r"^sized: its rules cannot be worked out .*KeyError: 'y'"):
        ran(wrong, FULL, tmp_path)
    wrong = Experiment(**{**vars(one), "charts": lambda seeds: seeds[0]["b"]})
    with pytest.raises(RunError, match=r"^sized: its charts cannot be made .*KeyError: 'b'"):
        conclude(wrong, open_results(tmp_path, one, "cpu"), FULL)


def test_a_file_that_is_no_result_is_named(tmp_path):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "x.json").write_text("{")
    with pytest.raises(RunError, match=r"x\.json is no result of the lab"):
        cards(tmp_path)
