from itertools import pairwise

import numpy as np
import pytest
import torch

from regard.errors import SettingError
from regard.look import Token, look
from regard.look.look import LookSide
from regard.look.track import Track
from regard.look.views import (
    bounds,
    join_spans,
    join_words,
    rollout,
    row_spans,
    statistics,
    thumbnails,
    view,
    word_spans,
)
from regard.metrics.alignment_error import word_weights
from tests.look.models import TEXT, language_model, pair_model


def track(shape=(2, 3, 11, 11), kind="weights", signed=False, seed=0, columns="text"):
    torch.manual_seed(seed)
    values = torch.randn(shape)
    if kind == "weights":
        values = values.softmax(-1)
    return Track(name="self", kind=kind, badge="", about="", rows="text", columns=columns, shape=shape, signed=signed,
                 held=values.numpy())


def thumbnails_by_definition(values, size = 64, pool = "max"):
    """Bin by bin."""
    rows, columns = ([*bounds(side, size), side] for side in values.shape[2:])
    made = np.zeros((*values.shape[:2], len(rows) - 1, len(columns) - 1), np.float32)
    for place in np.ndindex(made.shape):
        layer, head, r, c = place
        inside = values[layer, head, rows[r]:rows[r + 1], columns[c]:columns[c + 1]]
        made[place] = inside.sum() if pool == "sum" else inside.flat[np.abs(inside).argmax()]
    return made


def statistics_by_definition(track):
    """Head by head and row by row, in float64."""
    names = ("entropy", "distance", "first", "previous")
    found = {name: np.zeros(track.shape[:2]) for name in names}
    for n, h in np.ndindex(track.shape[:2]):
        rows = {name: [] for name in names}
        for r, amounts in enumerate(np.abs(track.values[n, h].astype(np.float64))):
            if not amounts.sum():
                continue
            p = amounts / amounts.sum()
            rows["entropy"].append(-sum(each * np.log2(each) for each in p if each > 0))
            rows["distance"].append(sum(each * abs(r - c) for c, each in enumerate(p)))
            rows["first"].append(p[0])
            if r:
                rows["previous"].append(p[r - 1] if r - 1 < len(p) else 0.0)
        for name in names:
            found[name][n, h] = np.mean(rows[name]) if rows[name] else 0.0
    if track.rows != track.columns:
        found["distance"] = found["previous"] = None
    return found


@pytest.mark.parametrize("shape", [(2, 3, 11, 11), (1, 2, 5, 17), (1, 1, 1, 1), (2, 1, 8, 4)])
@pytest.mark.parametrize("size", [1, 4, 64])
@pytest.mark.parametrize("pool", ["max", "sum"])
@pytest.mark.parametrize("kind", ["weights", "kernel"])
def test_thumbnails_are_what_their_definition_says(shape, size, pool, kind):
    own = track(shape, kind)
    made = thumbnails(own.values, size, pool, signed=kind == "kernel")
    np.testing.assert_allclose(made, thumbnails_by_definition(own.values, size, pool), atol=1e-6)
    assert made.shape == (*shape[:2], min(shape[2], size), min(shape[3], size)) and made.dtype == np.float32
    if pool == "sum":
        np.testing.assert_allclose(made.sum((2, 3)), own.values.sum((2, 3)), atol=1e-4)


def test_a_thumbnail_shows_the_single_strong_weight_that_a_mean_would_hide():
    values = np.zeros((1, 1, 512, 512), np.float32)
    values[0, 0, 300, 17] = 1
    assert thumbnails(values, 64)[0, 0, 300 // 8, 17 // 8] == 1
    values[0, 0, 300, 18] = -2
    assert thumbnails(values, 64)[0, 0, 300 // 8, 18 // 8] == -2


def test_every_row_is_in_one_bin():
    for side in (1, 5, 64, 65, 100, 513):
        edges = [*bounds(side, 64), side]
        assert edges[0] == 0 and len(edges) == min(side, 64) + 1
        even = side // min(side, 64)
        assert {later - earlier for earlier, later in pairwise(edges)} <= {even, even + 1}


def pooled_by_definition(values, pick, axis):
    if not isinstance(pick, str):
        return values.take(pick - 1, axis)
    if pick == "mean":
        return values.mean(axis)
    largest = np.expand_dims(np.abs(values).argmax(axis), axis)
    return np.take_along_axis(values, largest, axis).squeeze(axis)


@pytest.mark.parametrize("kind", ["weights", "kernel"])
@pytest.mark.parametrize("layer", [1, "2", "mean", "max"])
@pytest.mark.parametrize("head", [3, "mean", "max"])
def test_views_are_those_of_a_reading_map(kind, layer, head):
    own = track(kind=kind, signed=kind == "kernel")
    pick = int(layer) if str(layer).isdecimal() else layer
    expected = pooled_by_definition(pooled_by_definition(own.values.astype(np.float64), head, 1), pick, 0)
    np.testing.assert_allclose(view(own, layer, head), expected, atol=1e-6)


def test_a_rollout_is_the_product_of_layers_that_half_pass_by():
    own = track()
    layers = [0.5 * values.mean(0).astype(np.float64) + 0.5 * np.eye(11) for values in own.values]
    np.testing.assert_allclose(rollout(own), layers[1] @ layers[0], atol=1e-6)
    np.testing.assert_allclose(view(own, "rollout", 2).sum(-1), 1, atol=1e-5)
    with pytest.raises(SettingError, match=r"^layer = rollout: self is not the attention of one text to itself$"):
        rollout(track(kind="kernel"))


@pytest.mark.parametrize("kind, columns", [("weights", "text"), ("kernel", "text"), ("weights", "source")])
def test_statistics_are_what_their_definition_says(kind, columns):
    own = track((2, 3, 11, 11 if columns == "text" else 7), kind, kind == "kernel", columns=columns)
    values = own.values.copy()
    values[0, 0, 4] = 0                                     # a row that read nothing
    values[1, 2, 5] = np.eye(values.shape[3])[2]            # and one that read a single column
    own.held = values
    found, expected = statistics(own), statistics_by_definition(own)
    for name in ("entropy", "distance", "first", "previous"):
        if expected[name] is None:
            assert found[name] is None
        else:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)


def test_statistics_tell_heads_apart():
    values = np.stack([np.eye(6), np.eye(6, k=-1) + np.eye(6)[:1] * (np.arange(6) == 0)[:, None],
                       np.repeat(np.eye(6)[:1], 6, 0), np.full((6, 6), 1 / 6)]).astype(np.float32)[None]
    own = Track(name="self", kind="weights", badge="", about="", rows="text", columns="text", shape=values.shape,
                held=values)
    found = statistics(own)
    assert found["previous"][0] == pytest.approx([0, 1, 0.2, 1 / 6])
    assert found["first"][0] == pytest.approx([1 / 6, 2 / 6, 1, 1 / 6])
    assert found["entropy"][0] == pytest.approx([0, 0, 0, np.log2(6)])
    assert found["distance"][0][0] == 0 and found["distance"][0][2] == pytest.approx(2.5)


def test_words_are_sums_over_what_is_read_and_means_over_who_reads():
    assert join_spans([-1, 0, 0, 1, -1, -1, 2, 2]) == [(0, 1), (1, 3), (3, 4), (4, 5), (5, 6), (6, 8)]
    rows, columns = [0, 1, 1, 2, 2, 2], [0, 0, 1, 2]
    cells = np.random.default_rng(0).random((6, 4)).astype(np.float32)
    expected = word_weights(torch.from_numpy(cells), columns, rows)
    np.testing.assert_allclose(join_words(cells, join_spans(rows), join_spans(columns)), expected, atol=1e-6)


def test_rows_are_put_together_by_the_token_that_names_them():
    pieces = ["<bos>", "un", "do", "ing", " it"]
    words = [-1, 0, 0, 0, 1]
    tokens = tuple(Token(9, piece, word=word) for piece, word in zip(pieces, words, strict=True))
    seen = look(language_model("rnn"), TEXT)
    seen.sides["text"] = LookSide("text", "", "", tokens)
    own = track()
    assert row_spans(seen, own) == word_spans(seen.sides["text"]) == [(0, 1), (1, 4), (4, 5)]
    own.row_label = "writes"
    assert row_spans(seen, own) == [(0, 3), (3, 4), (4, 5)], "<bos> writes the first piece of the first word"


def test_rows_of_words_still_sum_to_one():
    seen = look(pair_model("transformer"), "un deux trois")
    for name in ("cross", "self", "encoder"):
        own = seen.track(name)
        made = join_words(view(own, 1, 1), row_spans(seen, own), word_spans(seen.sides[own.columns]))
        np.testing.assert_allclose(made.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("layer, head, message", [
    ("all", "mean", r"^layer = all \(there are: max, mean, rollout\)$"),
    (3, "mean", r"^layer = 3: there are 2, counted from 1; or one of mean, max, rollout$"),
    (1, "rollout", r"^head = rollout"), (1, 0, "^head = 0: there are 3, counted from 1")])
def test_views_that_are_not_there_are_one_clear_line(layer, head, message):
    with pytest.raises(SettingError, match=message):
        view(track(), layer, head)
    with pytest.raises(SettingError, match=r"^pool = 'mean'"):
        thumbnails(track().values, 4, "mean")
