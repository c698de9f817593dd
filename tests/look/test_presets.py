"""The lectures' worked examples, to the digit."""

from fractions import Fraction

import numpy as np
import pytest

from regard.errors import SettingError
from regard.look.presets import PRESETS, W_K, W_Q, W_V, P, X
from tests.look.redoing import largest_difference


def shown(name, **how):
    found = PRESETS[name].sheet(**how).quantities
    return [list(map(Fraction, found[each].exact)) for each in ("alpha", "output")]


def test_a_a_b_a_with_base_3_finds_the_b():
    sheet = PRESETS["aaba"].sheet(column=2)
    assert sheet.quantities["e"].values.tolist() == [0, 0, 1, 0]
    assert sheet.quantities["alpha"].exact == ("1/6", "1/6", "1/2", "1/6")
    assert sheet.quantities["output"].exact == ("1/2", "1/2")
    assert sheet.quantities["powers"].exact == ("1/3", "1/3", "1", "1/3") and sheet.quantities["total"].exact == ("2",)
    assert sheet.quantities["part"].exact == ("0", "1/2")
    assert largest_difference(sheet) < 1e-15


def test_looking_harder_gives_almost_exactly_the_b():
    for name in ("aaba-10", "aaba-matrices"):
        sheet = PRESETS[name].sheet(base="e")
        assert sheet.quantities["e"].values.tolist() == [0, 0, 10, 0]
        np.testing.assert_allclose(sheet.quantities["output"].values, [0, 1], atol=2e-4)


@pytest.mark.parametrize(("name", "alpha", "output"), [
    ("aaba-mean", ["1/4"] * 4, ["3/4", "1/4"]),
    ("aaba-self-a", ["3/10", "3/10", "1/10", "3/10"], ["9/10", "1/10"]),
    ("aaba-self-b", ["1/6", "1/6", "1/2", "1/6"], ["1/2", "1/2"]),
    ("aaba-causal", ["1/2", "1/2", "0", "0"], ["1", "0"]),
    ("h3", ["3/10", "1/2", "1/5"], ["3/10", "1/2", "1/5"]),
    ("h2", ["7/10", "3/10", "0"], ["7/10", "3/10", "0"]),
    ("table-2", ["3/10", "7/10", "0"], ["3/10", "7/10", "0"]),
    ("table-3", ["1/10", "1/2", "2/5"], ["1/10", "1/2", "2/5"]),
    ("expanded", ["3/13", "1/13", "9/13"], ["34/13", "-24/13"]),
    ("equivariance", ["9/13", "3/13", "1/13"], ["34/13", "-24/13"]),
    ("location", ["9/37", "1/37", "27/37"], ["378/37", "168/37"])])
def test_each_table_has_its_fractions(name, alpha, output):
    assert shown(name) == [list(map(Fraction, alpha)), list(map(Fraction, output))]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_worked_out_exactly_in_either_base(name):
    preset = PRESETS[name]
    for base in ("e", "3"):
        for column in range(len(preset.columns)):
            sheet = preset.sheet(column, base)
            assert largest_difference(sheet) < 1e-15
            assert sheet.quantities["alpha"].values.sum() == pytest.approx(1)


def test_self_attention_of_all_rows_is_q_k_transposed():
    embeddings = np.array(PRESETS["aaba-self-a"].values)
    for name, row in (("aaba-self-a", 0), ("aaba-self-b", 2)):
        np.testing.assert_array_equal(PRESETS[name].sheet().quantities["raw"].values, (embeddings @ embeddings.T)[row])
    np.testing.assert_array_equal(PRESETS["aaba-self-a10"].sheet().quantities["raw"].values, [10, 10, 0, 10])


def test_moving_the_rows_of_x_moves_the_weights_along_and_leaves_the_output():
    row, moved = (PRESETS[name].sheet().quantities for name in ("expanded", "equivariance"))
    order = np.array(P) @ np.arange(3)
    np.testing.assert_array_equal(moved["alpha"].values, row["alpha"].values[order])
    np.testing.assert_array_equal(moved["keys"].values, row["keys"].values[order])
    np.testing.assert_array_equal(moved["output"].values, row["output"].values)
    assert PRESETS["equivariance"].columns == tuple(PRESETS["expanded"].columns[at] for at in order)


def test_the_row_of_a_of_x_is_that_of_the_equation():
    x, w_q, w_k, w_v = map(np.array, (X, W_Q, W_K, W_V))
    scores = x @ w_q @ w_k.T @ x.T
    np.testing.assert_array_equal(PRESETS["expanded"].sheet().quantities["e"].values, scores[0])
    weights = 3.0 ** scores / (3.0 ** scores).sum(1, keepdims=True)
    np.testing.assert_allclose(PRESETS["expanded"].sheet().quantities["output"].values, (weights @ x @ w_v)[0],
                               rtol=1e-15)


def test_what_is_not_there_is_refused():
    with pytest.raises(SettingError, match="column = 4: there are 4, counted from 0"):
        PRESETS["aaba"].sheet(column=4)
    with pytest.raises(SettingError, match="base = '2'"):
        PRESETS["aaba"].sheet(base="2")
