import numpy as np
import pytest

from regard.metrics.regions import Gaze


def test_what_lies_inside_is_counted_beside_chance():
    weights = np.array([[[[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]]]], np.float32)      # two words
    region = np.array([1.0, 0.0, 0.0, 0.0])
    seen = Gaze()
    seen.add(weights, ["red", "of"], [region, None])
    assert seen.words == 1 and seen.mean == pytest.approx(0.7) and seen.times_chance == pytest.approx(2.8)
    seen.add(weights, ["of", "red"], [None, region])
    assert seen.mean == pytest.approx((0.7 + 0.25) / 2) and seen.times_chance == pytest.approx(0.95 / 0.5)
    told = seen.as_dict()
    assert told["attention_by_word"]["red"] == pytest.approx(1.9)
    assert (told["attention_words"], told["attention_chance"]) == (2, pytest.approx(0.25))    # a quarter, each time


def test_reading_everything_alike_is_chance():
    seen, even = Gaze(), np.full((2, 3, 1, 8), 1 / 8, np.float32)
    seen.add(even, ["red"], [np.array([0.5, 1, 0, 0, 0, 0, 0, 0.25])])
    assert seen.times_chance == pytest.approx(1.0)


def test_heads_are_told_apart_and_nothing_is_no_error():
    weights = np.zeros((1, 2, 1, 4), np.float32)
    weights[0, 0, 0, 0] = weights[0, 1, 0, 3] = 1
    seen = Gaze()
    assert seen.mean == 0 and seen.as_dict()["attention_words"] == 0
    seen.add(weights, ["red"], [np.array([1.0, 0, 0, 0])])
    told = seen.as_dict()
    assert told["attention_heads"] == [[1.0, 0.0]] and told["attention_best_head_times_chance"] == pytest.approx(4.0)
