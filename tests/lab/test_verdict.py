"""Verdicts of rules and of claims, by numbers whose verdict is known."""

import math

import pytest

from regard.lab.experiment import Arm, Experiment, Flip, Rule
from regard.lab.verdict import FAILS, HOLDS, UNCLEAR, judge, judge_rule, tell_rule


def seeds(*values):
    return [{"a": {"x": value}} for value in values]


def rule(**bound):
    return Rule("x is", lambda seed: seed["a"]["x"], **bound)


def claim(*rules):
    return Experiment("toy", 99, "t", "c", "s", "e", "r", [Flip("f", "f")], [Arm("a", lambda s: {})], rules,
                      lambda seeds: [])


@pytest.mark.parametrize("values, bound, verdict", [
    ((3.0, 3.1, 2.9), {"above": 1}, HOLDS), ((0.1, 0.2, 0.3), {"above": 1}, FAILS),
    ((0.1, 1.9, 3.0), {"above": 1}, UNCLEAR), ((3.0, 3.1), {"above": 1}, UNCLEAR),         # too few seeds
    ((3.0, 3.1, 2.9), {"below": 1}, FAILS), ((0.1, 0.2, 0.3), {"below": 1}, HOLDS),
    ((1.0, 1.0, 1.0), {"above": 1}, FAILS),                                                # on it is not above it
    ((1.1, 1.2, 1.3, 1.4, 1.5, 1.6), {"above": 1}, HOLDS),                                 # six seeds: all on its side
    ((0.9, 9.2, 9.3, 9.4, 9.5, 9.6), {"above": 1}, UNCLEAR),                               # one of six is not
    ((0.9, *range(2, 11)), {"above": 1}, HOLDS),                                           # of ten, one may fail
    ((0.9, 0.8, *range(2, 10)), {"above": 1}, UNCLEAR),                                    # two may not
    ((5.0, math.inf, 5.0), {"above": 1}, UNCLEAR), ((5.0, math.nan, 5.0), {"above": 1}, UNCLEAR),
])
def test_a_rule_holds_fails_or_is_unclear(values, bound, verdict):
    assert judge_rule(rule(**bound), seeds(*values)).verdict == verdict


@pytest.mark.parametrize("values, verdict", [
    ((3.0,), HOLDS), ((3.0, 0.9), FAILS), ((3.0, 3.0, 3.0, 3.0, 1.0), FAILS), ((0.5, 0.9), FAILS),
    ((3.0, math.nan), UNCLEAR), ((0.9, math.nan), FAILS), ((3.0, -math.inf), FAILS), ((3.0, math.inf), UNCLEAR),
])
def test_one_seed_breaks_a_theorem(values, verdict):
    assert judge_rule(rule(above=1, exact=True), seeds(*values)).verdict == verdict


def test_all_rules_must_hold_and_one_that_fails_is_enough():
    one = claim(rule(above=1), rule(below=2))
    assert judge(one, seeds(1.5, 1.6, 1.4))[0] == HOLDS
    assert judge(one, seeds(3.5, 3.6, 3.4))[0] == FAILS
    assert judge(one, seeds(1.5, 2.6, 1.4))[0] == UNCLEAR


@pytest.mark.parametrize("values, verdict", [
    ((3.0, 3.1, 2.9), HOLDS), ((0.1, 0.1, 0.1), UNCLEAR), ((1.5, 1.6, 1.4), FAILS), ((0.8, 1.5, 1.2), UNCLEAR)])
def test_a_claim_whose_condition_does_not_hold_could_not_be_tested(values, verdict):
    one = claim(rule(above=2), rule(above=1, condition="else nothing was learned"))
    assert judge(one, seeds(*values))[0] == verdict


def test_a_rule_is_told_with_its_interval_and_what_it_is_over():
    told = tell_rule(vars(judge_rule(rule(above=1, unit=" nats"), seeds(3.0, 3.1, 2.9))))
    assert told == "x is: 3 nats (95% over seeds: 2.75 to 3.25), to be above 1 nats: holds"     # 4.303 * 0.1 / sqrt 3
    told = tell_rule(vars(judge_rule(rule(below=4, exact=True), seeds(3.0, 3.5))))
    assert "least and largest of the seeds: 3 to 3.5" in told


@pytest.mark.parametrize("changed, why", [
    ({"flips": []}, "at least one flip"), ({"flips": [Flip("f", "f"), Flip("f", "g")]}, "each once"),
    ({"flips": [Flip("f", "f", arms=("b",))]}, "names an arm that there is not"),
    ({"flips": [Flip("f", "f"), Flip("g", "g")]}, "no rule has the cause f"),
    ({"rules": [Rule("x", lambda s: 1.0, above=0, cause="h")]}, "no rule has the cause f"),
    ({"rules": [Rule("x", lambda s: 1.0, above=0), Rule("y", lambda s: 1.0, above=0, cause="h")]}, "name its cause"),
])
def test_every_rule_has_a_cause_and_every_cause_a_rule(changed, why):
    with pytest.raises(AssertionError, match=why):
        Experiment(**{**vars(claim(rule(above=1))), **changed})
