"""Every number of a sheet is the model's own, and doing the arithmetic again gives it; of every family and score."""

import math

import numpy as np
import pytest
import torch

from regard.errors import SettingError
from regard.layers.attend import weights
from regard.layers.full_attention import FullAttention
from regard.layers.scores import ALL_SCORES, SCORES
from regard.layers.self_attention import SelfAttention
from regard.look import Request, look
from regard.look.arithmetic import arithmetic, final_vectors
from regard.look.arithmetic_attention import attention_sheet, score_name
from regard.watching import Edit, editing, watch
from tests.look import models
from tests.look.redoing import largest_difference, redo

CLOSE = 1e-5
REQUESTS = {"translate": Request(source="un deux trois cinq", target="un deux trois"), "lm": Request(text=models.TEXT),
            "caption": Request(target="a red circle"), "masked": Request(text="the cat ___ on the mat")}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def seen_of(task, name):
    """A model and a look at it."""
    if task == "caption":
        trained = models.captioner(name)
        return trained, look(trained, Request(image=models.picture(), target="a red circle"))
    trained = {"lm": models.language_model, "translate": models.pair_model, "masked": models.masked_model}[task](name)
    return trained, look(trained, REQUESTS[task])


def cell_of(track):
    """A cell in the middle: its layer, head, row and column."""
    row = max(0, track.shape[2] - 2)
    return track.shape[0], track.shape[1], row, min(row, track.shape[3] - 1) // 2


# ----------------------------------------------------------------------------------------------- attention


def closely(layer, length=7, width=16, **more):
    torch.manual_seed(1)
    with torch.no_grad(), watch(closely=True) as seen:
        y, _ = layer.eval()(torch.randn(1, length, width), **more)
    return seen.readings[0], y


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
@pytest.mark.parametrize("score", ALL_SCORES)
@pytest.mark.parametrize("how", [{}, {"window": 3, "softcap": 1.5}, {"kv_heads": 2},
                                 {"head_width": 6, "value_width": 3, "f": "tanh"}])
def test_self_attention_is_what_pytorch_says_for_every_score(score, positions, how):
    torch.manual_seed(0)
    layer = SelfAttention(16, heads=4, score=score, positions=positions, **how)
    reading, _ = closely(layer)
    for head, row, column in ((0, 5, 4), (3, 6, 6), (2, 2, 5)):
        sheet = attention_sheet(reading, head, row, column)
        assert largest_difference(sheet) < CLOSE
        about, values = reading.about, sheet.quantities
        group = head // (4 // about["k"].shape[1])
        own = weights(about["q"], about["k"], about["allowed"], about["bias"], about["softcap"],
                      about["score"]).detach()
        np.testing.assert_allclose(values["alpha"].values, own[0, head, row], atol=CLOSE)
        np.testing.assert_allclose(values["output"].values, own[0, head, row] @ about["v"][0, group], atol=CLOSE)
        np.testing.assert_allclose(values["part"].values, own[0, head, row, column] * about["v"][0, group, column],
                                   atol=CLOSE)
        raw = values["raw"].values[column] - (values["b"].values[column] if score == "location" else 0)
        assert values["sum"].values == pytest.approx(raw, abs=CLOSE)
        assert len(sheet.steps) == 5
    assert (values["e"].values[3:] == -math.inf).all()              # of row 2, what comes later
    assert score_name(about["score"]) == score


def test_heads_put_together_and_mixed_are_what_the_layer_gives():
    torch.manual_seed(0)
    layer = SelfAttention(16, heads=4)
    reading, y = closely(layer)
    heads = np.concatenate([attention_sheet(reading, head, 5, 0).quantities["output"].values for head in range(4)])
    np.testing.assert_allclose(heads @ layer.out.weight.detach().numpy().T, y[0, 5], atol=CLOSE)


@pytest.mark.parametrize("score", SCORES)
def test_attention_in_both_directions(score):
    torch.manual_seed(0)
    reading, _ = closely(FullAttention(16, heads=2, score=score, positions="alibi"), lengths=torch.tensor([6]))
    sheet = attention_sheet(reading, 1, 2, 5)
    assert largest_difference(sheet) < CLOSE
    assert np.isfinite(sheet.quantities["e"].values).tolist() == [True] * 6 + [False]


def test_a_row_that_may_read_nothing_gives_zeros():
    torch.manual_seed(0)
    reading, _ = closely(FullAttention(16, heads=2), lengths=torch.tensor([0]))
    sheet = attention_sheet(reading, 0, 2, 5)
    assert not sheet.quantities["alpha"].values.any() and sheet.quantities["top"].values == 0
    assert not np.nan_to_num(redo(sheet)["alpha"]).any()


def test_a_wrong_number_is_noticed():
    reading, _ = closely(SelfAttention(16, heads=2))
    reading.about["output"] = reading.about["output"] + 1e-3
    assert largest_difference(attention_sheet(reading, 0, 5, 1)) > 5e-4
    reading.about["scores"] = reading.about["scores"].nan_to_num(neginf=-1e9)
    assert largest_difference(attention_sheet(reading, 0, 5, 1)) == math.inf


# ----------------------------------------------------------------------------------------- whole models

ALL = [*(("lm", name) for name in models.LANGUAGE), *(("translate", name) for name in models.TRANSLATORS),
       *(("caption", name) for name in models.CAPTIONERS), ("masked", "transformer")]


@pytest.mark.parametrize(("task", "name"), ALL)
def test_every_cell_of_every_track_is_worked_out(task, name):
    trained, seen = seen_of(task, name)
    for track in seen.tracks:
        layer, head, row, column = cell_of(track)
        told = arithmetic(trained, seen, track, layer, head, row, column)
        assert largest_difference(told) < CLOSE, track.name
        own = told.quantities[ANSWERS[told.kind](told.quantities)].values
        shown = math.exp(-seen.predictions[row].bits * math.log(2)) if told.kind == "back-off" else \
            track.row(row)[layer - 1, head - 1, column]
        assert float(own) == pytest.approx(float(shown), abs=CLOSE), track.name


ANSWERS = {
    "attention": lambda found: "alpha here", "kernel": lambda found: "mean" if "mean" in found else "size",
    "back-off": lambda found: "p", "influence": lambda found: next(
        name for name in ("difference", "sum", "size") if name in found)}


@pytest.mark.parametrize(("task", "name"), [("lm", "transformer"), ("lm", "hybrid"), ("translate", "before"),
                                            ("translate", "feeding"), ("translate", "transformer"),
                                            ("translate", "prefix"), ("caption", "rnn-attention"),
                                            ("masked", "transformer")])
def test_scores_given_as_they_were_change_nothing_and_others_do(task, name):
    trained, seen = seen_of(task, name)
    for track in (each for each in seen.tracks if each.kind == "weights"):
        layer, head, row, column = cell_of(track)
        told = arithmetic(trained, seen, track, layer, head, row, column)
        own = [float(e) if math.isfinite(e) else None for e in told.quantities["e"].values]
        same = arithmetic(trained, seen, track, layer, head, row, column, scores=own)
        assert same.next.moved == 0 and all(bar.before == bar.after for bar in same.next.tokens)
        assert same.edited["alpha"] == told.quantities["alpha"].values.tolist()
        first = next(at for at, e in enumerate(own) if e is not None)
        other = arithmetic(trained, seen, track, layer, head, row, column,
                           scores=[e if at != first else e + 4 for at, e in enumerate(own)])
        assert other.next.moved > 0, track.name
        sums = [bar.after for bar in other.next.tokens]
        assert sum(sums) + other.next.rest.after == pytest.approx(1, abs=1e-5)
        assert other.edited["alpha"][first] > told.quantities["alpha"].values[first]


def test_the_rerun_is_that_of_a_model_whose_row_was_changed():
    trained, seen = seen_of("lm", "transformer")
    model = trained.language_model
    told = arithmetic(trained, seen, "self", 1, 2, 5, 1)
    e = told.quantities["e"].values.copy()
    e[1] += 2
    edited = arithmetic(trained, seen, "self", 1, 2, 5, 1, scores=[float(x) if math.isfinite(x) else None for x in e])
    layer = seen.watched(closely=True).readings[0].layer

    def by_hand(module, inputs, output):
        """The layer's output with head 2 of row 5 worked out from the changed scores."""
        q, k, v = (x[0, :, 1] for x in module.queries_keys_values(inputs[0], torch.arange(inputs[0].shape[1])))
        changed = torch.tensor(e).softmax(-1) @ v - (q[5] @ k.T / math.sqrt(8))[:6].softmax(-1) @ v[:6]
        y = output[0].clone()
        y[0, 5] += changed @ module.out.weight[:, 8:].T
        return y, output[1]

    handle = layer.register_forward_hook(by_hand)
    with final_vectors(model) as vectors:
        seen.watched()
    handle.remove()
    expected = model.head(vectors[-1][5]).exp().detach()
    for bar in edited.next.tokens:
        assert bar.after == pytest.approx(float(expected[bar.id]), abs=CLOSE)


def test_an_edit_reaches_no_earlier_row_and_no_other_read():
    trained, seen = seen_of("lm", "transformer")
    model, (reading, *_) = trained.language_model, seen.watched(closely=True).readings
    scores = torch.zeros(reading.values.shape[-1])
    with final_vectors(model) as before:
        seen.watched()
    with editing(Edit(reading.layer, 0, 4, scores)), final_vectors(model) as unwatched:
        seen.watched()                                                     # watched, but not closely
    with editing(Edit(reading.layer, 0, 4, scores)), final_vectors(model) as changed:
        seen.watched(closely=True)
    assert torch.equal(unwatched[-1], before[-1])
    assert torch.equal(changed[-1][:4], before[-1][:4]) and not torch.equal(changed[-1][4], before[-1][4])


def test_one_channel_of_a_kernel_may_be_chosen():
    for name, group in (("linear-rnn", 2), ("mamba", 1), ("mamba2", 3)):
        trained, seen = seen_of("lm", name)
        track = seen.track("kernel")
        first = arithmetic(trained, seen, track, 1, group, 6, 3)
        start, stop = first.channels
        assert first.channel == start and len(first.names["group"]) == stop - start + 1
        last = arithmetic(trained, seen, track, 1, group, 6, 3, channel=stop)
        cells = first.quantities["cells"].values
        assert last.quantities["cell"].values == pytest.approx(cells[-1], abs=CLOSE)
        assert last.quantities["mean"].values == first.quantities["mean"].values
        with pytest.raises(SettingError, match=f"channel = {stop + 1}: group {group} has the"):
            arithmetic(trained, seen, track, 1, group, 6, 3, channel=stop + 1)
        later = arithmetic(trained, seen, track, 1, 1, 2, 6)
        assert later.quantities["kernel"].values[6] == 0 and largest_difference(later) < CLOSE


@pytest.mark.parametrize(("change", "message"), [
    (dict(layer=0), "layer = 0: self has 2, counted from 1"), (dict(head=3), "head = 3: self has 2, counted from 1"),
    (dict(row=99), "row = 99: self has"), (dict(column=-1), "column = -1: self has"),
    (dict(track="selv"), "unknown track selv: did you mean self"), (dict(scores=[0.0]),
                                                                    "1 scores were given for a row of"),
    (dict(track="influence-gradient", layer=1, head=1, scores=[0.0]), "scores can be edited of attention only")])
def test_a_cell_that_is_not_there_is_refused_in_a_line(change, message):
    trained, seen = seen_of("lm", "transformer")
    with pytest.raises(SettingError, match=message):
        arithmetic(trained, seen, **{**dict(track="self", layer=1, head=1, row=3, column=1), **change})


@pytest.mark.parametrize(("score", "message"), [(math.nan, "must be numbers"), (math.inf, "must be numbers"),
                                                (0.0, "a masked column was given a score")])
def test_what_is_no_score_is_refused(score, message):
    trained, seen = seen_of("lm", "transformer")
    length = len(seen.sides["text"].tokens)
    scores = [0.0] * 4 + [None] * (length - 5) + [score]
    with pytest.raises(SettingError, match=message):
        arithmetic(trained, seen, "self", 1, 1, 3, 1, scores=scores)
