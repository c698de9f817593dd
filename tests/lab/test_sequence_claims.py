"""Claims about sequence models: their tasks are what they say, their measures right on cases worked by hand, and the
cheap ones change with their cause."""

import math

import pytest
import torch

from regard.lab.claims import forgetting, one_table, window
from regard.lab.exercises import FIRST, any_distance, recall_at
from regard.lab.experiment import Setting
from regard.lab.phrases import EOS, LONGEST, phrases
from regard.lab.tiny import accuracy, far_apart, language_model, parameters
from regard.models.ngram import NGram

QUICK, FLIPPED = Setting(quick=True), Setting(quick=True, flipped=True)


# --------------------------------------------------------------------------------------------- what is shared


def test_phrases_are_short_framed_and_held_out_ones_are_new():
    learned, held_out = phrases()
    assert len(learned) > 1000 and len(held_out) == 200
    for part in (learned, held_out):
        batch = part.all()
        assert (batch.tokens[:, 0] == 1).all() and batch.targets.shape[1] == LONGEST + 1
        ends = part.target_lengths - 1
        assert (part.target.gather(1, ends[:, None]) == EOS).all()
        assert torch.equal((batch.targets != 0), batch.counts)
        assert int(part.source.max()) < part.vocab[0] and int(part.target.max()) < part.vocab[1]
        for at, links in enumerate(part.links):
            assert all(i < part.source_lengths[at] - 1 and j < part.target_lengths[at] - 1 for i, j in links)
    sentences = {tuple(row) for row in learned.source.tolist()}
    assert not sentences & {tuple(row) for row in held_out.source.tolist()}
    assert all(any(i != j for i, j in held_out.links[at]) for at in held_out.crossing().tolist())
    assert torch.equal(learned.drawn(5, 1, 7).tokens, learned.drawn(5, 1, 7).tokens)


def test_distances_are_of_every_rhythm_and_reach_both_ends():
    drawn = [any_distance(16, 3, step) for step in range(600)]
    assert set(drawn) == set(range(1, 17)) and drawn[0] == any_distance(16, 3, 0)
    assert drawn.count(1) > drawn.count(16)


def test_words_far_apart_are_words_alone():
    torch.manual_seed(0)
    model = language_model("gru", 200, width=16, hidden=16, tied=False)
    before = model.head.weight.clone(), model.stack.state_dict()["layers.0.w_h"].clone()
    far_apart(model)
    assert float(model.embedding.weight.detach().std()) == pytest.approx(0.5, abs=0.05)
    assert torch.equal(model.head.weight, before[0])
    assert torch.equal(model.stack.state_dict()["layers.0.w_h"], before[1])


# ------------------------------------------------------------------------------------------ window and forgetting


def test_bits_of_an_ngram_are_those_of_its_lines_one_by_one():
    lines = [[4, 5, 4], [5, 5, 5, 4], [4]]
    stream, ends = window.joined(lines)
    assert stream.tolist() == [4, 5, 4, 2, 5, 5, 5, 4, 2, 4, 2] and ends.tolist() == [4, 9, 11]
    model = NGram.fit(stream, ends, vocab=6, order=2)
    total = sum(float(model.score(torch.tensor([[1, *line]]), torch.tensor([[*line, 2]]))[0].sum()) for line in lines)
    assert window.bits_of(model, lines) == pytest.approx(-total / math.log(2) / 11, rel=1e-5)


def test_stories_are_split_into_words_and_none_of_the_held_out_is_learned_from():
    learned, held_out, vocab = window.texts(0)
    assert len(learned) == window.STORIES and len(held_out) == window.HELD_OUT
    assert max(word for line in learned + held_out for word in line) == vocab - 1


def test_the_table_puts_each_window_beside_its_own_n():
    seed = {"n-gram": {"bits": [7, 6, 5, 4, 3, 2], "plain": [7, 6, 5, 6, 7, 8], "unseen": [0, 0, 0, 0, 0, 0.5]},
            "window": {"bits": [60, 40, 20]}}
    rows = window.table([seed]).rows
    assert [(row[0], row[3]) for row in rows] == [(1, ""), (2, "60.00"), (3, ""), (4, "40.00"), (5, ""), (7, "20.00")]
    assert rows[-1] == [7, "2.00", "8.00", "20.00", "0.50"]


class KnowsIfNear:
    """Says B if there is one among the last two letters."""

    device = "cpu"

    def eval(self): ...

    def encode(self, tokens):
        near = (tokens[:, -2:] == FIRST + 1).any(1)
        said = torch.nn.functional.one_hot(FIRST + near.long(), FIRST + 2)
        return said[:, None].expand(-1, tokens.shape[1], -1), None

    def head(self, vectors):
        return vectors


def test_bs_are_counted_by_how_far_back_they_stand():
    batch = forgetting.any_b(400, forgetting.AB, 0, 0)
    assert forgetting.by_place(KnowsIfNear(), batch) == [1.0, 0.0, 0.0, 0.0]


def test_an_ngram_knows_a_name_within_its_reach_only():
    names, noise = forgetting.NAMES, forgetting.NOISE
    batches = [recall_at(forgetting.ROWS, k, names, noise, 0, step) for step in range(40) for k in (1, 8)]
    model = forgetting.Answers(forgetting.fitted(batches, forgetting.VOCAB))
    near, far = (accuracy(model, recall_at(200, k, names, noise, 0, -k)) for k in (1, 8))
    assert near > 0.95 and far < 0.3


# --------------------------------------------------------------------------------------------------- equal budgets


@pytest.mark.parametrize("family", one_table.MODELS)
def test_every_family_of_the_table_has_the_same_budget(family):
    assert parameters(one_table.built(QUICK, family, 40)) == pytest.approx(one_table.WEIGHTS, rel=0.05)


def test_flipping_takes_the_transformers_long_memory_away():
    narrow = Setting(quick=True, flipped="reach")
    whole, short = (one_table.built(setting, "transformer", 40).start(1, one_table.READ).nbytes()
                    for setting in (QUICK, narrow))
    assert whole > 50 * short
    tokens = torch.randint(4, 40, (1, 40))
    other = tokens.clone()
    other[:, 0] = tokens[:, 0] % 36 + 4 + (tokens[:, 0] % 36 + 4 == tokens[:, 0])
    for setting, differs in ((QUICK, True), (narrow, False)):
        torch.manual_seed(0)
        model = one_table.built(setting, "transformer", 44).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(std=0.3)                     # as it starts, a block adds nothing
            ends = [model.encode(each)[0][:, -1] for each in (tokens, other)]
        assert bool((ends[0] != ends[1]).any()) is differs
