"""Which run a card tells of, what a flip is compared with, and concluding again without measuring."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from regard.errors import RunError
from regard.lab import flipping, outcome, runner
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule
from regard.lab.find import experiments
from regard.lab.flipping import did_change, tell_flips
from regard.lab.outcome import conclude, load_cards, redraw, tell_looks
from regard.lab.results import key_of, open_results, version_of
from regard.lab.verdict import FAILS, HOLDS, UNCLEAR

FULL, QUICK = runner.RunPlan(5, workers=1), runner.RunPlan(3, quick=True, workers=1)
FLIPPED, QUICK_FLIPPED = runner.RunPlan(5, flipped=True, workers=1), runner.RunPlan(3, True, flipped=True, workers=1)


@pytest.fixture(autouse=True)
def charts_are_bytes(monkeypatch):
    """A chart is written as its numbers: test_lab.py draws real ones."""
    monkeypatch.setattr(outcome, "draw", lambda chart, kind: f"{kind} of {chart}".encode())


def sized(full=2.0, quick=2.0, flipped=0.0, name="sized", charts=1):
    """A claim whose number depends on the size of the run, and on whether it is flipped."""

    def run(setting):
        return {"x": (flipped if setting.flipped else quick if setting.quick else full) + setting.seed / 1000}

    def drawn(seeds):
        return [Chart(f"chart {at}", "x", "y", [Line("a", [1], [[seed["a"]["x"]] for seed in seeds])])
                for at in range(charts)]

    return Experiment(name, 98, "Sized", "It is more than one.", "nowhere", "x > 1", "less",
                      [Flip("it", "takes it away")], (Arm("a", run),),
                      (Rule("x is", lambda seed: seed["a"]["x"], above=1),), drawn)


def ran(experiment, plan, folder):
    assert runner.run_arms([experiment], plan, folder, lambda text: None) == []
    return conclude(experiment, open_results(folder, experiment, plan.device), plan)


# --------------------------------------------------------------------------------------------- quick and full


def tells_of_the_largest(folder):
    one = sized(full=2.0, quick=0.5)
    assert ran(one, QUICK, folder)["verdict"] == FAILS and load_cards(folder)[0]["quick"]
    svg = (folder / "cpu" / "sized-1.svg").read_bytes()
    first = ran(one, FULL, folder)
    assert first["verdict"] == HOLDS and first["smaller_than"] is None and first["plots"]
    assert (folder / "cpu" / "sized-1.svg").read_bytes() != svg
    kept = (folder / "cpu" / "sized-1.svg").read_bytes()
    for smaller in (QUICK, runner.RunPlan(3, workers=1)):
        own = ran(one, smaller, folder)                              # tells its own verdict ...
        assert own["verdict"] == (FAILS if smaller.quick else HOLDS) and own["seeds"] == 3
        assert own["smaller_than"] == "full, 5 seeds" and own["table"]["rows"] and not own["plots"]
        card = load_cards(folder)[0]                                      # ... and leaves the card
        assert (card["verdict"], card["quick"], card["seeds"]) == (HOLDS, False, 5)
        assert card["command"] == "regard lab run sized --seeds 5"
        assert (folder / "cpu" / "sized-1.svg").read_bytes() == kept
    assert ran(one, runner.RunPlan(6, workers=1), folder)["smaller_than"] is None
    assert load_cards(folder)[0]["seeds"] == 6


def test_a_card_tells_of_the_largest_run_that_is_complete(tmp_path):
    tells_of_the_largest(tmp_path)


def test_a_card_that_told_of_the_latest_run_would_be_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(outcome, "size_of", lambda told: (True, 0))
    with pytest.raises(AssertionError):
        tells_of_the_largest(tmp_path)


def test_where_and_when_are_those_of_the_run_that_the_card_tells_of(tmp_path, monkeypatch):
    one = sized()
    for plan, day in ((FULL, "2020-01-01"), (QUICK, "2021-01-01")):
        monkeypatch.setattr("regard.lab.results.where", lambda device, day=day: {"device": device, "when": day})
        assert ran(one, plan, tmp_path)["where"]["when"] == day
    assert load_cards(tmp_path)[0]["when"] == "2020-01-01"


# ----------------------------------------------------------------------------------------------------- flips


def keeps_flips_of_another_size(folder):
    one = sized(full=2.0, quick=2.0, flipped=0.0)
    ran(one, FULL, folder)
    assert load_cards(folder)[0]["flip_told"] == "not run"
    assert ran(one, QUICK_FLIPPED, folder)["flips"]["it"]["verdict"] == FAILS     # measured as it is, too
    card = load_cards(folder)[0]
    assert not card["quick"] and card["flip_told"] == "1 of 1 rules changed (quick, 3 seeds)"
    ran(one, FLIPPED, folder)
    assert load_cards(folder)[0]["flip_told"] == "1 of 1 rules changed (full, 5 seeds)"
    ran(one, QUICK_FLIPPED, folder)                                  # smaller: the card goes on telling of the larger
    assert not load_cards(folder)[0]["flips"]["it"]["quick"]


def test_the_largest_run_of_a_flip_is_kept_whatever_the_size_of_the_card(tmp_path):
    keeps_flips_of_another_size(tmp_path)


def test_a_flip_that_replaced_a_larger_one_would_be_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(flipping, "size_of", lambda told: (True, 0))
    with pytest.raises(AssertionError):
        keeps_flips_of_another_size(tmp_path)


def test_a_flip_is_compared_with_the_rules_at_its_own_size_even_where_the_card_says_otherwise(tmp_path):
    one = sized(full=2.0, quick=0.5, flipped=0.0)
    for plan in (FULL, QUICK_FLIPPED):
        ran(one, plan, tmp_path)
    card = load_cards(tmp_path)[0]
    assert card["verdict"] == HOLDS
    assert card["flip_told"] == "0 of 1 rules changed (quick, 3 seeds); not: x is (fails -> fails)"


def test_only_a_rule_that_is_clear_both_times_was_seen_to_change():
    for before, after, changed in ((HOLDS, FAILS, True), (FAILS, HOLDS, True), (HOLDS, HOLDS, False),
                                   (HOLDS, UNCLEAR, False), (UNCLEAR, FAILS, False)):
        assert did_change({"before": before, "after": after}) is changed


def test_rules_whose_flip_was_not_run_are_counted():
    rule = {"says": "x is", "cause": "it"}
    flip = {"quick": True, "seeds": 3, "rules": [{"says": "x is", "before": HOLDS, "after": FAILS}]}
    card = {"rules": [rule, {"says": "y is", "cause": "that"}, {"says": "z is", "condition": "else"}]}
    assert tell_flips(card) == "not run"
    assert tell_flips({**card, "flips": {"it": flip}}) == "1 of 2 rules changed (quick, 3 seeds); 1 not run"


# ------------------------------------------------------------------------------------------- looks and rules


def test_rules_that_were_changed_after_a_look_are_told(tmp_path, monkeypatch):
    one, hashes = sized(), iter(["first", "first", "second"])
    monkeypatch.setattr(outcome, "hash_rules", lambda experiment: next(hashes))
    for day in ("2020-01-01", "2020-01-02", "2020-01-03"):
        monkeypatch.setattr("regard.lab.results.today", lambda day=day: day)
        ran(one, FULL, tmp_path)
        told = load_cards(tmp_path)[0]["looked"]
        assert told == ("rules changed on 2020-01-03, after a first look on 2020-01-01" if day[-1] == "3" else "")
    file = tmp_path / "cpu" / "sized.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": "other"}))
    assert [look["rules"] for look in open_results(tmp_path, one, "cpu").record["looks"]] == ["first", "second"]


def test_what_was_changed_after_a_look_is_said_in_the_claim_s_own_words():
    fixed = vars(Fixed("2020-01-01", "0", after="the bound was 0.3"))
    assert tell_looks({"fixed": fixed}) == "changed by 2020-01-01, after a first look: the bound was 0.3"
    looks = [{"rules": "a", "when": "2020-01-01"}, {"rules": "b", "when": "2020-01-05"}]
    assert tell_looks({"fixed": fixed, "looks": looks}).endswith("first look on 2020-01-01: the bound was 0.3")


# ------------------------------------------------------------------------------------------ without measuring


def test_everything_is_worked_out_again_from_what_is_kept(tmp_path):
    one = sized()
    ran(one, runner.RunPlan(runner.SEEDS, flipped=True, workers=1), tmp_path)
    file, picture = tmp_path / "cpu" / "sized.json", tmp_path / "cpu" / "sized-1.png"
    first = json.loads(file.read_text())
    bare = {name: first[name] for name in ("version", "arms", "ran", "looks")}
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
        assert kept.seconds(one, FULL.settings()) == float(sum(map(Fraction, measured)))


def test_the_seconds_of_the_results_in_the_tree_are_those_that_a_report_writes():
    every = experiments()
    for path in sorted((Path(outcome.__file__).parents[2] / "lab" / "results").glob("*/*.json")):
        record = json.loads(path.read_text())
        one = every.get(path.stem)
        if one is None or "verdict" not in record or record["version"] != version_of(one):
            continue                                                 # not concluded yet, or by earlier code
        for flip, told in (("", record), *record.get("flips", {}).items()):
            settings = runner.RunPlan(told["seeds"], told["quick"], path.parent.name).settings(flip)
            keys = {key_of(one, arm, setting) for setting in settings for arm in one.arms}
            exact = sum(Fraction(record["arms"][key]["seconds"]) for key in keys)
            assert told["seconds"] == round(float(exact), 1), path


def test_results_of_a_device_that_is_not_here_are_concluded_and_run_asks_for_no_device(tmp_path, monkeypatch):
    one = sized()
    ran(one, FULL, tmp_path)
    (tmp_path / "cpu").rename(tmp_path / "cuda")
    asked = []
    monkeypatch.setattr(runner, "pick_device", asked.append)
    plan = runner.RunPlan(5, device="cuda", workers=1)
    assert runner.run_arms([one], plan, tmp_path, lambda text: None) == [] and asked == []
    assert redraw([one], tmp_path) == []
    assert load_cards(tmp_path)[0]["command"] == "regard lab run sized --seeds 5 --device cuda"
    runner.run_arms([one], runner.RunPlan(6, device="cuda", minutes=0), tmp_path, lambda text: None)
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
    monkeypatch.setattr(outcome, "hash_drawing", lambda chart: "by other code")
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
        load_cards(tmp_path)
