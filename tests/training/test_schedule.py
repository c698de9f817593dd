"""The share of the learning rate at each update, by the equations, with a last share that is not zero."""

import math

import pytest

from regard.training.schedule import rate
from regard.training.settings import TrainingSettings

FINAL = 0.2


def rates(schedule, steps=100, **options):
    settings = TrainingSettings(steps=steps, schedule=schedule, warmup=0.1, final=FINAL, **options)
    return [rate(step, settings) for step in range(steps)]


@pytest.mark.parametrize("schedule", ["constant", "cosine", "wsd"])
def test_every_schedule_rises_evenly_over_the_warm_up(schedule):
    assert rates(schedule)[:10] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])


def test_a_cosine_falls_from_one_to_the_last_share():
    found = rates("cosine")
    assert found[10:] == pytest.approx([FINAL + (1 - FINAL) * math.cos(math.pi * d / 180) ** 2 for d in range(90)])
    assert found[55] == pytest.approx((1 + FINAL) / 2)                               # half-way, half of both
    assert max(found) == 1.0 and min(found[10:]) > FINAL


def test_warm_up_stay_and_decay_falls_in_a_line_at_the_end():
    found = rates("wsd", decay=0.25)
    assert found[10:75] == [1.0] * 65
    assert found[75:] == pytest.approx([1 - (1 - FINAL) * (step - 75) / 25 for step in range(75, 100)])


def test_constant_stays():
    assert rates("constant")[10:] == [1.0] * 90
