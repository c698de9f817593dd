"""Recorded steps write what plain ones write. Without a GPU the step itself stands in for its recording."""

import gc
import weakref

import pytest
import torch
from torch import nn

from regard.decoding.fast import recorded_stream
from regard.decoding.fast.recorded_stream import RecordedSteps
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens
from regard.families import FAMILIES

HOW = [Sampling(temperature=0), Sampling(seed=3), Sampling(0.8, top_k=4, seed=5), Sampling(0.9, top_p=0.8, seed=4)]
PROMPTS = [[1, 4, 5], [1], [1, 6, 7, 8, 9, 10], [1, 5]]
TRAINED = [name for name, family in FAMILIES.items() if family.build is not None]
GPU = torch.cuda.is_available()


def texts(model, prompts=PROMPTS, **options):
    options = {"new_tokens": 20, "end": 2, "banned": (0, 1, 3)} | options
    return [list(column) for column in zip(*generate_tokens(model, prompts, **options), strict=True)]


@pytest.fixture
def standing_in(monkeypatch):
    """RecordedSteps that are replayed by doing them, on any device."""
    monkeypatch.setattr(recorded_stream, "fits", lambda model, new_tokens: isinstance(model, nn.Module))
    if not GPU:
        monkeypatch.setattr(RecordedSteps, "record", lambda self: None)


def model_of(name):
    torch.manual_seed(0)
    model = FAMILIES[name].example(torch.float64)
    return model.to("cuda") if GPU else model


@pytest.mark.parametrize("sampling", HOW, ids=str)
@pytest.mark.parametrize("name", TRAINED)
def test_every_family_writes_the_same(name, sampling, standing_in, monkeypatch):
    model = model_of(name)
    told = []
    found = texts(model, sampling=sampling, notice=told.append)
    again = texts(model, sampling=sampling, notice=told.append)                      # by the recording that was kept
    assert not any("one by one" in line for line in told)
    monkeypatch.setattr(recorded_stream, "fits", lambda model, new_tokens: False)
    assert found == again == texts(model, sampling=sampling)


@pytest.mark.parametrize("end", [None, 5])
def test_rows_that_are_full_are_read_again_and_rows_that_ended_begin_anew(end, standing_in, monkeypatch, bounded):
    model = bounded(8).to("cuda" if GPU else "cpu")
    hows = [Sampling(seed=seed) for seed in range(12)]
    found = [texts(model, new_tokens=30, end=end, sampling=sampling) for sampling in hows]
    monkeypatch.setattr(recorded_stream, "fits", lambda model, new_tokens: False)
    plain = [texts(model, new_tokens=30, end=end, sampling=sampling) for sampling in hows]
    assert found == plain
    mixed = [{None in row[:10] for row in rows} == {True, False} for rows in plain if len(rows[0]) == 30]
    assert mixed and (end is None or any(mixed))                           # one ended early, while another went on


def test_two_texts_at_once_do_not_share_a_state(standing_in, monkeypatch):
    model = model_of("gru")
    one, two = (generate_tokens(model, [[1, at]], new_tokens=12, sampling=Sampling(seed=at)) for at in (4, 5))
    mixed = [(a[0], b[0]) for a, b in zip(one, two, strict=True)]
    monkeypatch.setattr(recorded_stream, "fits", lambda model, new_tokens: False)
    alone = [[step[0] for step in generate_tokens(model, [[1, at]], new_tokens=12, sampling=Sampling(seed=at))]
             for at in (4, 5)]
    assert [list(each) for each in zip(*mixed, strict=True)] == alone


def test_a_model_that_nobody_uses_any_more_is_let_go_with_its_recordings(standing_in):
    model = model_of("transformer")
    texts(model)
    assert recorded_stream.RECORDINGS.idle[model]
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_few_recordings_are_kept_and_none_after_the_weights_moved(standing_in, monkeypatch):
    model = model_of("gru")
    made = []
    original = RecordedSteps.__init__
    monkeypatch.setattr(RecordedSteps, "__init__", lambda self, *a: made.append(1) or original(self, *a))
    for rows in (1, 2, 3, 4, 5, 5, 4):
        texts(model, [[1]] * rows)
    assert len(made) == 5 and len(recorded_stream.RECORDINGS.idle[model]) == 4
    for weight in model.parameters():
        weight.data = weight.data.clone()
    texts(model, [[1]] * 4)
    assert len(made) == 6 and len(recorded_stream.RECORDINGS.idle[model]) == 1
    texts(model, [[1]] * 4, sampling=Sampling(seed=9))                          # another seed is no other recording
    assert len(made) == 6


def test_a_model_that_cannot_be_recorded_says_so_once_and_writes_all_the_same(standing_in, monkeypatch):
    def refuse(self):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(RecordedSteps, "record", refuse)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    model, told = model_of("gru"), []
    found = texts(model, notice=told.append)
    assert told == ["tokens are chosen one by one: a step cannot be recorded as a CUDA graph "
                    "(operation not permitted when stream is capturing)"]
    monkeypatch.setattr(recorded_stream, "fits", lambda model, new_tokens: False)
    assert found == texts(model)


def test_a_step_that_forgets_to_keep_its_state_is_caught(standing_in, monkeypatch):
    model = model_of("gru")
    plain = texts(model, sampling=Sampling(seed=3))
    monkeypatch.setattr(RecordedSteps, "_keep", lambda self, after: None)
    recorded_stream.RECORDINGS.clear()
    assert texts(model, sampling=Sampling(seed=3)) != plain
