"""Five claims at tiny size, from arms to verdict: each holds, and does not once its cause is taken away."""

from dataclasses import replace

import pytest
import torch

from regard.lab.claims import generation_memory, scaling
from regard.lab.experiment import Experiment, Setting
from regard.lab.find import experiment
from regard.lab.verdict import FAILS, HOLDS, judge

SEEDS = 3


def verdict(one: Experiment, flipped: bool) -> str:
    seeds = []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        setting = Setting(seed, quick=True, flipped=flipped)
        seeds.append({arm.name: seeds[0][arm.name] if arm.once and seed else arm.run(setting) for arm in one.arms})
    return judge(one, seeds)[0]


def without_times(one: Experiment) -> Experiment:
    """A test says nothing about how long something takes: the rules about counts alone."""
    return replace(one, rules=[rule for rule in one.rules if rule.exact])


@pytest.mark.parametrize("name", ["equivariance", "masking", "nonlinearity", "scaling", "generation-memory"])
def test_taking_the_cause_away_changes_the_verdict(name, monkeypatch):
    monkeypatch.setattr(generation_memory, "LONGEST", {"cpu": 1024})
    monkeypatch.setattr(generation_memory, "WRITTEN", 1)
    monkeypatch.setattr(scaling, "LARGE", 96)
    one = experiment(name)
    one = without_times(one) if one.timing else one
    assert verdict(one, flipped=False) == HOLDS
    assert verdict(one, flipped=True) == FAILS
