"""Claims about sequence models: their tasks are what they say, their measures right on cases worked by hand, and the
cheap ones change with their cause."""

import math

import pytest
import torch

from regard.contract import Source
from regard.lab.claims import alignment, decoder_only, forgetting, one_table, one_to_one, score_functions, window
from regard.lab.experiment import Setting
from regard.lab.phrases import EOS, LONGEST, UNK, phrases
from regard.lab.tasks import FIRST, any_distance, recall_at
from regard.lab.tiny import Batch, accuracy, far_apart, fit, language_model, parameters, translator
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


# ---------------------------------------------------------------------------------------------------- alignment


def hand_made():
    """One pair of two source words and two target words, then <eos>."""
    source, targets = torch.tensor([[5, 6, EOS]]), torch.tensor([[7, 8, EOS]])
    batch = Batch(targets, targets, targets > 0, source, torch.tensor([3]))
    weights = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.0, 0.0, 1.0]]])
    lost = torch.tensor([[[4.0, 0.5, 9.0], [3.0, 2.0, 9.0], [9.0, 9.0, 9.0]]])
    return weights, lost, batch


def test_agreement_is_of_words_and_not_of_ends():
    weights, lost, batch = hand_made()
    said = alignment.agreement(weights, lost, batch)
    assert said == pytest.approx({"lost_attended": (4 + 2) / 2, "lost_others": (0.5 + 3) / 2, "agrees": 0.5,
                                  "caused": 1.0})
    nothing = alignment.agreement(weights, torch.zeros_like(lost), batch)
    assert nothing["caused"] == 0.0 and nothing["agrees"] == 0.0


def test_what_is_lost_is_what_erasing_by_hand_gives():
    torch.manual_seed(0)
    _, held_out = phrases()
    batch = held_out.rows(torch.arange(3))
    model = far_apart(translator("rnn-attention", *held_out.vocab, width=8, hidden=8, dropout=0.0, context=16)).eval()
    lost = alignment.losses_without(model, batch)
    erased = batch.source.clone()
    erased[:, 2] = UNK
    with torch.no_grad():
        starts = [model.start(3, None, Source(each, batch.source_lengths)) for each in (batch.source, erased)]
        whole, without = (model.score(batch.tokens, batch.targets, start)[0] for start in starts)
    torch.testing.assert_close(lost[..., 2], whole - without, rtol=1e-4, atol=1e-5)
    assert float(lost.abs().max()) > 0


def test_the_diagonal_is_right_where_nothing_crosses():
    _, held_out = phrases()
    at = next(row for row, links in enumerate(held_out.links) if all(i == j for i, j in links)
              and held_out.source_lengths[row] == held_out.target_lengths[row])
    assert alignment.diagonal(held_out, torch.tensor([at])) == 0.0
    assert alignment.diagonal(held_out, held_out.crossing()) > 0.2


def test_lessons_erase_words_and_flipped_ones_do_not_belong_together():
    learned, _ = phrases()
    plain, told, flipped = learned.drawn(128, 0, 4), *(alignment.lesson(learned, each, 4) for each in (QUICK, FLIPPED))
    blank = told.source == UNK
    assert 0.05 < float(blank.sum() / (plain.source >= FIRST).sum()) < 0.15
    assert torch.equal(told.source[~blank], plain.source[~blank])
    assert torch.equal(flipped.source, told.source.roll(1, 0)) and torch.equal(flipped.targets, told.targets)


# --------------------------------------------------------------------------------------------------- one to one


def test_made_up_translations_are_what_their_task_says():
    source, same = one_to_one.pairs("same order", 20, 0, 0)
    _, back = one_to_one.pairs("reversed", 20, 0, 0)
    _, longer = one_to_one.pairs("unequal", 20, 0, 0)
    for row, line, turned, grown in zip((source - FIRST).tolist(), same, back, longer, strict=True):
        assert line == [FIRST + (word + 1) % one_to_one.WORDS for word in row] and turned == line[::-1]
        assert len(grown) == len(row) + sum(word % 2 == 0 for word in row)
        assert [word for word in grown if word < FIRST + one_to_one.WORDS] == line
    batch = one_to_one.pair_batch("unequal", 20, 0, 0)
    assert [row[:length] for row, length in zip(batch.targets.tolist(), batch.lengths.tolist(), strict=True)] == [
        [*line, EOS] for line in longer]


def test_one_to_one_cannot_reverse_and_an_encoder_decoder_can():
    torch.manual_seed(0)
    assert one_to_one.run(QUICK, "one to one", "reversed")["right"] < 0.3
    assert one_to_one.run(FLIPPED, "one to one", "reversed")["right"] > 0.8


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


# ------------------------------------------------------------------------------------------------ score functions


def test_a_look_up_asks_for_what_the_source_says():
    batch = score_functions.look_up(50, 0, 0)
    words = batch.source[:, :-1] - FIRST
    names, colours = words // score_functions.COLOURS, words % score_functions.COLOURS
    assert (names.sort(1).values == torch.arange(score_functions.NAMES)).all()
    assert torch.equal(colours.gather(1, names.argsort(1)), batch.targets - FIRST)


def test_the_decoder_knows_of_the_source_by_attention_alone():
    torch.manual_seed(0)
    model = score_functions.model_of(QUICK, "dot", (FIRST + 24, FIRST + 4))
    fit(model, lambda step: score_functions.look_up(8, 0, step), 2)
    assert all(not weight.any() for weight in model.stack.bridge.parameters())
    state = model.start(2, None, Source(torch.tensor([[4, 2], [9, 2]]), torch.tensor([2, 2])))
    assert not any(tensor.any() for tensor in state.cell.tensors().values())


def test_only_the_plain_dot_product_saturates_and_not_when_scaled():
    torch.manual_seed(0)
    plain, scaled = (score_functions.largest(QUICK, name) for name in ("dot", "scaled-dot"))
    assert plain[-1] - plain[0] > 0.3 and abs(scaled[-1] - scaled[0]) < 0.1


# --------------------------------------------------------------------------------------------------- equal budgets


@pytest.mark.parametrize("kind", decoder_only.FAMILIES)
def test_both_translators_have_the_weights_they_are_given(kind):
    model = decoder_only.built(kind, (254, 254), "cpu")
    assert parameters(model) == pytest.approx(decoder_only.WEIGHTS, rel=0.05)


def test_flipped_both_translators_are_of_one_kind(monkeypatch):
    asked = []

    def remember(kind, vocab, device):
        asked.append(kind)
        raise KeyError(kind)

    monkeypatch.setattr(decoder_only, "built", remember)
    for setting in (QUICK, FLIPPED):
        with pytest.raises(KeyError):
            decoder_only.trained(setting, "decoder-only")
    assert asked == ["decoder-only", "encoder-decoder"]


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
