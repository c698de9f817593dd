"""The lectures' worked examples, to the digit."""

from fractions import Fraction

import numpy as np
import pytest

from regard.errors import SettingError
from regard.look.presets import PRESETS


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
    assert sheet.largest_difference() < 1e-15


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
    ("table-3", ["1/10", "1/2", "2/5"], ["1/10", "1/2", "2/5"])])
def test_each_table_has_its_fractions(name, alpha, output):
    assert shown(name) == [list(map(Fraction, alpha)), list(map(Fraction, output))]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_worked_out_exactly_in_either_base(name):
    preset = PRESETS[name]
    for base in ("e", "3"):
        for column in range(len(preset.columns)):
            sheet = preset.sheet(column, base)
            assert sheet.largest_difference() < 1e-15
            assert sheet.quantities["alpha"].values.sum() == pytest.approx(1)


def test_self_attention_of_all_rows_is_q_k_transposed():
    embeddings = np.array(PRESETS["aaba-self-a"].values)
    for name, row in (("aaba-self-a", 0), ("aaba-self-b", 2)):
        np.testing.assert_array_equal(PRESETS[name].sheet().quantities["raw"].values, (embeddings @ embeddings.T)[row])
    np.testing.assert_array_equal(PRESETS["aaba-self-a10"].sheet().quantities["raw"].values, [10, 10, 0, 10])


def test_what_is_not_there_is_refused():
    with pytest.raises(SettingError, match="column = 4: there are 4, counted from 0"):
        PRESETS["aaba"].sheet(column=4)
    with pytest.raises(SettingError, match="base = '2'"):
        PRESETS["aaba"].sheet(base="2")
