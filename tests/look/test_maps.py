"""Reading maps: views of layers and heads, and every mistake said in one line."""

import numpy as np
import pytest
import torch

from regard.errors import DataError, SettingError
from regard.look.render.maps import Map

WEIGHTS = [[0.5, 0.25, 0.125, 0.125], [0, 0, 1, 0], [0, 0.5, 0.25, 0.25], [0, 0, 0, 1]]


def heads(layers=2, heads=3, rows=2, columns=4, seed=0):
    weights = np.random.default_rng(seed).dirichlet(np.ones(columns), (layers, heads, rows))
    return Map(["a", "b"][:rows], list("wxyz")[:columns], weights)


@pytest.mark.parametrize("give", [list, np.array, torch.tensor, lambda w: torch.tensor(w, requires_grad=True),
                                  lambda w: torch.tensor(w).bfloat16(), lambda w: np.array(w)[None]])
def test_weights_come_as_lists_arrays_and_tensors(give):
    seen = Map("abcd", "wxyz", give(WEIGHTS))
    assert seen.weights.shape == (1, 1, 4, 4) and seen.rows == ("a", "b", "c", "d")
    np.testing.assert_array_equal(seen.shown, WEIGHTS)
    with pytest.raises(ValueError, match="read-only"):
        seen.weights[0, 0, 0, 0] = 1


def test_a_view_is_a_head_a_mean_or_a_max():
    seen = heads()
    np.testing.assert_array_equal(seen.at(2, 3).shown, seen.weights[1, 2])
    np.testing.assert_allclose(seen.shown, seen.weights.mean((0, 1)))
    np.testing.assert_array_equal(seen.at("max", "max").shown, seen.weights.max((0, 1)))
    np.testing.assert_allclose(seen.at(1, "max").shown, seen.weights[0].max(0))
    np.testing.assert_allclose(seen.at("mean", "max").shown, seen.weights.max(1).mean(0))     # heads first, then layers
    np.testing.assert_array_equal(seen.at(np.int64(2), "3").shown, seen.weights[1, 2])
    assert seen.at(1, "max").about_view() == "layer 1, max of 3 heads" and Map("a", "b", [[1.0]]).about_view() == ""


def test_the_largest_of_signed_amounts_keeps_its_sign():
    seen = Map("a", "xy", np.array([[[[0.5, -0.1]], [[-2.0, 0.3]]]]), signed=True, kind="influence")
    np.testing.assert_array_equal(seen.at("max", "max").shown, [[-2.0, 0.3]])


def test_shades_are_square_roots_of_shares():
    np.testing.assert_allclose(Map("a", "xyz", [[0.64, 0.36, 0.0]]).shades, [[0.8, 0.6, 0.0]])
    signed = Map("a", "xy", [[-4.0, 1.0]], signed=True, kind="influence")
    np.testing.assert_allclose(signed.shades, [[-1.0, 0.5]])
    nothing = Map("a", "xy", [[0.0, 0.0]], signed=True)
    assert nothing.top == 1 and not nothing.shades.any()


def test_a_gold_alignment_is_turned_around():
    assert heads().aligned({(3, 0), (2, 1)}).links == {(0, 3), (1, 2)}
    read = Map("ab", "xy", [[0.1, 0.9], [0.8, 0.2]])
    links = {(source, target) for target, source in enumerate(np.argmax(read.shown, 1).tolist())}
    assert read.aligned(links).links == {(0, 1), (1, 0)}


@pytest.mark.parametrize(("change", "message"), [
    (dict(weights=[[0.5, 0.5]]), r"weights of shape \(1, 2\) for 2 rows and 2 columns: give \(2, 2\), or \(layers"),
    (dict(weights=[0.5]), r"weights of shape \(1,\) for 2 rows"),
    (dict(weights=np.zeros((0, 3, 2, 2))), r"weights of shape \(0, 3, 2, 2\)"),
    (dict(weights=[[1, 0], [np.nan, 1]]), "infinite or no number"),
    (dict(weights=[[1, 0], [-0.5, 1]]), "the least weight is -0.5: say signed=True"),
    (dict(weights=[[1, 0], [0.5, 1]]), r"sums to 1.5, more than 1: say which kind"),
    (dict(links={(0, 2)}), r"link \(0, 2\) is outside of 2 rows and 2 columns"),
])
def test_what_cannot_be_drawn_is_said(change, message):
    given = dict(rows="ab", columns="xy", weights=np.eye(2)) | change
    with pytest.raises(DataError, match=message):
        Map(**given)


def test_a_view_that_is_not_there_is_said():
    for layer in (0, 3):
        with pytest.raises(SettingError, match=f"layer = {layer}: there are 2, counted from 1; or one of mean, max"):
            heads().at(layer=layer)
    with pytest.raises(SettingError, match=r"head = maxx: did you mean max\?"):
        heads().at(head="maxx")
    assert Map("a", "xy", [[3.0, 4.0]], kind="influence").top == 4              # no shares: any sum will do
