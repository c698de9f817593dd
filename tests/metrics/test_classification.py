"""Accuracy and macro-F1 of labels, against figures worked out by hand."""

import numpy as np
import pytest

from regard.errors import DataError
from regard.metrics.classification import accuracy_of, label_counts, macro_f1_of, measure_labels

WANTED = ["a", "a", "a", "a", "b", "b", "c"]
GIVEN = ["a", "a", "b", "c", "b", "a", "d"]


def test_macro_f1_is_the_mean_over_the_labels_that_the_texts_have():
    found = measure_labels(GIVEN, WANTED)
    # a: 2 right, 3 given, 4 wanted; b: 1, 2, 2; c: 0, 1, 1; d is given once and wanted by none.
    assert found.accuracy == pytest.approx(3 / 7)
    assert found.macro_f1 == pytest.approx((4 / 7 + 2 / 4 + 0) / 3)
    assert found.labels["a"].as_dict("texts") == {"precision": 2 / 3, "recall": 2 / 4, "f1": 4 / 7, "texts": 4}
    assert found.labels["d"].f1 == 0 and found.texts == 7


def test_macro_f1_is_that_of_precision_and_recall_on_random_labels():
    random = np.random.default_rng(0)
    wanted, given = random.integers(5, size=200), random.integers(6, size=200)
    scores = []
    for label in range(5):
        both = np.sum((wanted == label) & (given == label))
        precision, recall = both / np.sum(given == label), both / np.sum(wanted == label)
        scores.append(2 * precision * recall / (precision + recall))
    totals = label_counts(given, wanted, 6).sum(0)
    assert macro_f1_of(totals) == pytest.approx(np.mean(scores))
    assert accuracy_of(totals) == pytest.approx(np.mean(wanted == given))


def test_intervals_hold_the_figure_and_narrow_with_more_texts():
    few, many = measure_labels(GIVEN * 10, WANTED * 10), measure_labels(GIVEN * 200, WANTED * 200)
    for found in (few, many):
        assert found.accuracy_interval[0] < found.accuracy < found.accuracy_interval[1]
        assert found.macro_f1_interval[0] < found.macro_f1 < found.macro_f1_interval[1]
    assert np.diff(many.accuracy_interval) < np.diff(few.accuracy_interval) / 3


def test_labels_that_do_not_fit_the_texts_are_refused():
    with pytest.raises(DataError, match="2 labelled texts and 1 labels"):
        measure_labels(["a"], ["a", "b"])
    with pytest.raises(DataError, match="0 labelled texts"):
        measure_labels([], [])
