import json

import numpy as np
import pytest

from regard.compare.measure import ResidentPeak, costs, curve, opening, state_bytes, training_rate
from regard.families import FAMILIES

TRANSFORMER, RNN, NGRAM = (FAMILIES[name].example for name in ("transformer", "rnn", "ngram"))


def row(step, seconds, **loss):
    return {"step": step, "tokens": 100 * step, "seconds": seconds, **loss}


def test_the_rate_of_training_leaves_validation_out():
    rows = [row(1, 1.0, train_loss=3.0), row(2, 3.0, train_loss=2.0), row(2, 50.0, valid_loss=2.0),
            row(3, 60.0, train_loss=2.0), row(4, 62.0, train_loss=2.0)]
    assert training_rate(rows) == 200 / 4
    assert training_rate([row(1, 4.0, valid_loss=1.0)]) == 25                # counted at once
    assert training_rate([]) is None


def test_a_curve_keeps_every_validation_and_thins_out_the_rest():
    rows = [row(step, float(step), train_loss=float(step)) for step in range(1, 1001)]
    found = curve([*rows, row(1000, 1e3, valid_loss=2.0)])
    assert found["valid"] == [[100_000, 1000.0, 2.0]]
    assert len(found["train"]) == 200 and found["train"][0] == [300.0, 3.0, 3.0]     # the mean of five rows
    assert json.dumps(found)


def test_the_state_of_attention_grows_up_to_its_context_and_that_of_a_recurrence_does_not():
    import torch

    attention = state_bytes(TRANSFORMER(torch.float32), (8, 32, 64))
    assert attention["8"]["bytes"] < attention["32"]["bytes"] == attention["64"]["bytes"]
    assert [each["bounded"] for each in attention.values()] == [False, False, True]
    recurrence = state_bytes(RNN(torch.float32), (8, 4096))
    assert recurrence["8"] == recurrence["4096"] and not recurrence["4096"]["bounded"]


def test_costs_end_where_a_context_does(monkeypatch):
    import torch

    from regard.compare import measure

    monkeypatch.setattr(measure, "LONGEST", 600.0)                            # however slow the machine
    monkeypatch.setattr(measure, "reading_seconds", lambda model, text: (1.0, 1.0))
    stream = np.random.default_rng(0).integers(4, 11, 100)
    found = costs(TRANSFORMER(torch.float32), stream, (16, 32, 64))
    assert [length for length, _ in found["read"]] == [16, 32, 64]            # in windows beyond the context
    assert [length for length, _ in found["step"]] == [16, 32]
    assert all(seconds > 0 for _, seconds in found["read"] + found["step"])
    assert [length for length, _ in costs(NGRAM(torch.float32), stream, (16, 64))["step"]] == [16, 64]


def test_a_length_that_takes_too_long_is_the_last(monkeypatch):
    import torch

    from regard.compare import measure

    monkeypatch.setattr(measure, "LONGEST", 0.0)
    monkeypatch.setattr(measure, "reading_seconds", lambda model, text: (1.0, 1.0))
    found = costs(RNN(torch.float32), np.arange(4, 10), (16, 32, 64))
    assert [length for length, _ in found["read"]] == [16]


def test_the_peak_counts_from_where_it_began():
    peak = ResidentPeak()
    held = np.ones(2**24)                                                     # 128 MiB
    grown = peak.grown()
    assert grown is None or grown > 0.6 * held.nbytes


@pytest.mark.parametrize("text, begin", [
    ("one two three four five six seven eight nine ten", "one two three four five"), ("abcdef", "abc")])
def test_a_prompt_is_the_first_words_of_the_held_out_text(text, begin):
    class Tokenizer:
        def decode(self, ids):
            return text

    class Shard:
        ends, tokens = np.array([10]), np.arange(10)

    assert opening(Shard(), Tokenizer()) == begin
