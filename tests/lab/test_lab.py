"""The lab itself: stopping and going on, flipping, the report, experiments of the user's own."""

import json

import pytest

from regard.errors import RunError, SettingError
from regard.lab import runner
from regard.lab.claims_page import make_page
from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule
from regard.lab.find import experiment, experiments
from regard.lab.outcome import conclude, load_cards
from regard.lab.results import open_results
from regard.lab.verdict import FAILS, HOLDS


def seeds(*values):
    return [{"a": {"x": value}} for value in values]


def rule(**bound):
    return Rule("x is", lambda seed: seed["a"]["x"], **bound)


# -------------------------------------------------------------------------------------------- running them


def toy(rules=None, calls=None):
    def run(setting):
        if calls is not None:
            calls.append(setting)
        return {"x": 0.0 if setting.flipped else 2.0 + setting.seed / 100, "many": [1.0, 2.0]}

    return Experiment(
        "toy", 99, "A toy <b>", "Two is more than one & less than three.", "nowhere", "2 > 1", "two being less",
        [Flip("two", "takes two away", arms=("a",))], (Arm("a", run), Arm("b", lambda s: {"x": 1.0}, once=True)),
        rules or [rule(above=1)],
        lambda seeds: [Chart("x", "place", "amount", [Line("a", [1, 2], [seed["a"]["many"] for seed in seeds])])])


def test_what_was_measured_is_not_measured_again_and_time_ends_a_run(tmp_path):
    calls = []
    one, said = toy(calls=calls), []
    assert runner.run_arms([one], runner.RunPlan(3, minutes=0, workers=1), tmp_path, said.append) == [one]
    assert not calls and not said
    assert runner.run_arms([one], runner.RunPlan(3, workers=1), tmp_path, said.append) == []
    assert [call.seed for call in calls] == [0, 1, 2] and len(said) == 4          # b once
    assert runner.run_arms([one], runner.RunPlan(4, workers=1), tmp_path, said.append) == []
    assert [call.seed for call in calls] == [0, 1, 2, 3]
    assert runner.run_arms([one], runner.RunPlan(3, quick=True, workers=1), tmp_path, said.append) == []
    assert len(calls) == 7                                                        # another size is another measurement


def test_an_arm_that_fails_is_told_and_the_others_go_on(tmp_path):
    calls = []
    one = toy(calls=calls)
    broken = Experiment(**{**vars(one), "arms": (*one.arms, Arm("c", lambda s: {"x": 1.0 / s.seed}))})
    said = []
    assert runner.run_arms([broken], runner.RunPlan(3, workers=1), tmp_path, said.append) == [broken]
    kept = open_results(tmp_path, broken, "cpu")
    assert {"a · seed 0 · full", "c · seed 2 · full"} <= kept.arms.keys() and "c · seed 0 · full" not in kept.arms
    assert [line.strip() for line in said if "failed" in line] == [
        "toy: c · seed 0 · full failed: ZeroDivisionError: float division by zero"]


def test_a_card_has_all_that_the_report_shows_and_flipping_changes_the_rule(tmp_path):
    one, plan = toy(), runner.RunPlan(3, flipped=True, workers=1)
    runner.run_arms([one], plan, tmp_path, lambda text: None)
    own = conclude(one, open_results(tmp_path, one, "cpu"), plan)
    assert own["verdict"] == HOLDS and own["flips"]["two"]["verdict"] == FAILS
    card = load_cards(tmp_path)[0]
    assert card["verdict"] == HOLDS and card["flip_told"] == "1 of 1 rules changed (full, 3 seeds)"
    assert card["plots"][0]["svg"].lstrip().startswith("<?xml") and card["command"] == "regard lab run toy --seeds 3"
    assert (tmp_path / "cpu" / "toy-1.png").read_bytes().startswith(b"\x89PNG")
    page = make_page(load_cards(tmp_path), ["other"])
    assert "A toy &lt;b&gt;" in page and "one &amp; less" in page and "Not measured yet: other" in page
    assert "<script" not in page and "http" not in page.replace("http://www.w3.org", "")


def test_a_flip_measures_again_only_the_arms_that_it_changes(tmp_path):
    calls = []
    one = toy(calls=calls)
    runner.run_arms([one], runner.RunPlan(3, flipped=True, workers=1), tmp_path, lambda text: None)
    assert [(call.seed, call.flipped) for call in calls] == [(seed, flip) for flip in ("", "two") for seed in range(3)]
    kept = open_results(tmp_path, one, "cpu")
    assert sorted(key for key in kept.arms if key.startswith("b")) == ["b \u00b7 once \u00b7 full"]
    flipped = kept.seeds(one, runner.RunPlan(3).settings("two"))
    assert flipped[0] == {"a": {"x": 0.0, "many": [1.0, 2.0]}, "b": {"x": 1.0}}


def test_the_same_numbers_draw_the_same_bytes(tmp_path):
    first, second = tmp_path / "one", tmp_path / "two"
    for folder in (first, second):
        runner.run_arms([toy()], runner.RunPlan(3, workers=1), folder, lambda text: None)
        conclude(toy(), open_results(folder, toy(), "cpu"), runner.RunPlan(3))
    assert (first / "cpu/toy-1.svg").read_bytes() == (second / "cpu/toy-1.svg").read_bytes()


def test_results_of_other_code_are_dropped_and_other_files_refused(tmp_path):
    one = toy()
    runner.run_arms([one], runner.RunPlan(3, workers=1), tmp_path, lambda text: None)
    file = tmp_path / "cpu" / "toy.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "version": "other"}))
    assert not open_results(tmp_path, one, "cpu").arms
    file.write_text("[]")
    with pytest.raises(RunError, match="no result of the lab"):
        open_results(tmp_path, one, "cpu")


# ---------------------------------------------------------------------------------------------- finding them


def test_a_file_is_enough_for_an_experiment_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        '"""Mine."""\nfrom regard.lab.experiment import *\n'
        "EXPERIMENT = Experiment('mine', 100, 't', 'c', 's', 'e', 'r', [Flip('f', 'f')],\n"
        "    (Arm('a', lambda s: {'x': 1.0}),), (Rule('x', lambda s: s['a']['x'], above=0, exact=True),),\n"
        "    lambda seeds: [])\n")
    assert experiment("mine", tmp_path).about == "Mine." and experiment("100", tmp_path).name == "mine"
    plan = runner.RunPlan(2, workers=2, folder=str(tmp_path))                       # in processes of their own
    assert runner.run_arms([experiment("mine", tmp_path)], plan, tmp_path / "out", lambda text: None) == []


def test_every_claim_says_what_would_refute_it():
    every = experiments()
    numbers = [each.number for each in every.values()]
    assert len(set(numbers)) == len(numbers)
    for each in every.values():
        assert each.about.strip() and each.refuted and each.flip_text and each.source, each.name
        assert each.claim.endswith("."), each.name
    with pytest.raises(SettingError, match="did you mean bottleneck"):
        experiment("botleneck")
