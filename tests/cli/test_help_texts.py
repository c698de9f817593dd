"""Help texts that say what a number does: held against what it does."""

import re
from importlib import import_module

import pytest
import torch

from regard.cli import COMMANDS
from regard.decoding.sampling import Sampling, choose

ROWS = 4000


def helped(name, option):
    command = import_module(f"regard.cli.{COMMANDS[name][0]}").command
    return next(each.help for each in command.params if option in each.opts)


def share_of_the_unlikely(temperature):
    """How often anything but the likeliest of four tokens is drawn."""
    log_probs = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().expand(ROWS, 4)
    rows = torch.arange(ROWS)
    drawn = choose(log_probs, Sampling(temperature), rows, torch.zeros(ROWS, dtype=torch.long))
    return (drawn != 0).float().mean().item()


def test_a_low_temperature_draws_unlikely_tokens_less_often():
    # p^(1/T) / sum: at T = 0.5 the likeliest has 0.16 / 0.30, at T = 2 it has 0.632 / 1.944
    for temperature, likeliest in ((0.5, 0.16 / 0.30), (1.0, 0.4), (2.0, 0.6325 / 1.9436)):
        assert share_of_the_unlikely(temperature) == pytest.approx(1 - likeliest, abs=0.04)
    assert share_of_the_unlikely(0.0) == 0.0


@pytest.mark.parametrize("name", ["generate", "translate", "summarise"])
def test_the_help_says_the_same_of_the_temperature(name):
    said = helped(name, "--temperature")
    assert re.search(r"[Bb]elow 1 unlikely tokens become rarer; 0 is greedy", said), said
