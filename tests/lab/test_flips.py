"""Claims at tiny size, from arms to verdict: each holds, and each of its rules fails once its cause is taken away."""

from dataclasses import replace

import pytest
import torch

from regard.lab.claims import generation_memory, parallelism
from regard.lab.experiment import Experiment, Seed, Setting
from regard.lab.find import experiment
from regard.lab.verdict import FAILS, HOLDS, judge, judge_rule

SEEDS = 3


def measured(one: Experiment, flip: str = "") -> list[Seed]:
    """Every arm for each seed; with a flip, the arms that it changes."""
    seeds: list[Seed] = []
    for seed in range(1 if all(rule.exact for rule in one.rules) else SEEDS):
        torch.manual_seed(seed)
        setting = Setting(seed, quick=True, flipped=flip)
        seeds.append({arm.name: seeds[0][arm.name] if arm.once and seed else arm.run(setting) for arm in one.arms
                      if not flip or one.changes(flip, arm)})
    return seeds


def in_small(one: Experiment) -> Experiment:
    """A test says nothing about how long something takes, and trains nothing: without the rules about that."""
    if one.name == "scaling":
        flips = [replace(flip, arms=tuple({"scaled", "unscaled"} & set(flip.arms))) for flip in one.flips]
        return replace(one, arms=one.arms[:2], rules=one.rules[:-1], flips=flips)
    if not one.timing:
        return one
    rules = [rule for rule in one.rules if rule.exact]
    return replace(one, rules=rules, flips=[flip for flip in one.flips
                                            if any(one.cause_of(rule) == flip.name for rule in rules)])


NAMES = ("equivariance", "masking", "nonlinearity", "scaling", "generation-memory", "parallelism")


@pytest.mark.parametrize("name", NAMES)
def test_each_rule_changes_when_its_cause_is_taken_away(name, monkeypatch):
    monkeypatch.setattr(generation_memory, "LONGEST", {"cpu": 2048})
    monkeypatch.setattr(generation_memory, "WRITTEN", 1)
    monkeypatch.setattr(parallelism, "LENGTHS", (32, 64, 128))
    monkeypatch.setattr(parallelism, "TOKENS", {"cpu": 1024})
    monkeypatch.setattr(parallelism, "seconds", lambda *args, **more: 1.0)
    one = in_small(experiment(name))
    as_it_is = measured(one)
    assert judge(one, as_it_is)[0] == HOLDS
    for flip in one.flips:
        flipped = [{**before, **after} for before, after in zip(as_it_is, measured(one, flip.name), strict=True)]
        for rule in one.rules:
            if one.cause_of(rule) == flip.name:
                assert judge_rule(rule, flipped).verdict == FAILS, f"{flip.name}: {rule.says}"


@pytest.mark.parametrize("name", ("equivariance", "masking", "nonlinearity"))
def test_a_flip_changes_no_arm_that_it_does_not_name(name):
    one = experiment(name)
    for flip in one.flips:
        for arm in one.arms:
            if not one.changes(flip.name, arm):
                torch.manual_seed(0)
                before = arm.run(Setting(0, quick=True))
                torch.manual_seed(0)
                assert arm.run(Setting(0, quick=True, flipped=flip.name)) == before
