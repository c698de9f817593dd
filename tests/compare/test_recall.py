"""The probe, on models of which the answer is known."""

import math

import numpy as np
import pytest
import torch

from regard.compare.recall import CUE, PASSAGE, pieces, probes, recall
from regard.contract import LanguageModel, State
from regard.models.ngram import NGram

VOCAB, SURE = 400, 0.9
STREAM = np.random.default_rng(0).integers(4, VOCAB, 6000)


class Copier(LanguageModel):
    """Looks for the last two tokens within its reach, and says what followed them then; else it knows nothing."""

    vocab = VOCAB

    def __init__(self, reach=10**6, context=None):
        self.reach, self.context = reach, context

    @property
    def device(self):
        return torch.device("cpu")

    def start(self, batch, capacity=None, source=None):
        return State()

    def step(self, tokens, state, lengths=None):
        raise NotImplementedError

    def score(self, tokens, targets, state=None, lengths=None):
        scores = torch.full(tokens.shape, -math.log(VOCAB))
        for b, row in enumerate(tokens.tolist()):
            for t in range(1, len(row)):
                before = [s for s in range(max(1, t - self.reach), t) if row[s - 1 : s + 1] == row[t - 1 : t + 1]]
                if before:
                    right = row[before[-1] + 1] == int(targets[b, t])
                    scores[b, t] = math.log((1 - SURE) / VOCAB + SURE * right)
        return scores, state


def gains(model, distances=(16, 64)):
    return {int(d): each["gain"] for d, each in recall(model, STREAM, distances, sequences=8).items()}


def test_a_copier_gains_what_copying_is_worth():
    worth = math.log2((SURE + (1 - SURE) / VOCAB) * VOCAB)
    assert gains(Copier()) == {16: pytest.approx(worth, rel=1e-3), 64: pytest.approx(worth, rel=1e-3)}


def test_a_copier_with_a_short_reach_gains_nothing_beyond_it():
    found = gains(Copier(reach=PASSAGE + 16))
    assert found[16] > 5 and found[64] == 0


def test_a_bigram_remembers_nothing():
    model = NGram.fit(STREAM[:3000], None, vocab=VOCAB, order=2)
    assert gains(model) == {16: pytest.approx(0, abs=1e-6), 64: pytest.approx(0, abs=1e-6)}


def test_what_a_model_cannot_read_is_not_measured_and_says_why():
    needed = 2 * PASSAGE + 64
    assert recall(Copier(context=needed), STREAM, (64,), 2)["64"]["gain"] > 0
    assert recall(Copier(context=needed - 1), STREAM, (64,), 2)["64"] == {
        "gain": None, "why": f"reads at most {needed - 1} tokens at once"}
    assert "too short" in recall(Copier(), STREAM[:100], (64,), 2)["64"]["why"]


def test_the_two_readings_differ_in_the_first_passage_only():
    seen, unseen = probes(STREAM, 16, 5)
    assert seen.shape == unseen.shape == (5, 2 * PASSAGE + 16)
    assert torch.equal(seen[:, PASSAGE:], unseen[:, PASSAGE:])
    assert torch.equal(seen[:, :PASSAGE], seen[:, -PASSAGE:])
    assert (seen[:, :PASSAGE] != unseen[:, :PASSAGE]).any(1).all() and CUE < PASSAGE


def test_pieces_never_overlap_and_reach_both_ends():
    stream, draw = np.arange(40), np.random.default_rng(1)
    for _ in range(50):
        taken = np.concatenate(pieces(stream, (10, 10, 15), draw))
        assert len(set(taken.tolist())) == 35
    assert sorted(np.concatenate(pieces(np.arange(35), (10, 10, 15), draw)).tolist()) == list(range(35))
