"""Claims about translators: tasks have the answers they say, measures are right on cases worked by hand, and what a
flip takes away is gone."""

import math

import pytest
import torch

from regard.contract import Source
from regard.lab.claims import (
    alignment,
    bottleneck,
    decoder_only,
    forward_only,
    one_to_one,
    pooling,
    score_functions,
)
from regard.lab.exercises import FIRST
from regard.lab.experiment import Setting
from regard.lab.find import experiment
from regard.lab.phrases import EOS, UNK, phrases
from regard.lab.tiny import Exercise, far_apart, fit, parameters, translator
from regard.lab.verdict import FAILS, HOLDS, UNCLEAR, judge
from regard.layers.attentive import Attention
from regard.layers.scores import make_score

QUICK = Setting(quick=True)


def flipped(name):
    return Setting(quick=True, flipped=name)


def verdicts(name, seed):
    """The verdict of a claim, and of each rule, if all seeds were like this one."""
    verdict, judged = judge(experiment(name), [seed] * 3)
    return verdict, [each.verdict for each in judged]


# --------------------------------------------------------------------------------------------------- bottleneck


@pytest.mark.parametrize("quick", [True, False])
def test_both_models_of_the_bottleneck_have_equally_many_parameters(quick):
    one, other = (parameters(bottleneck.model_of(Setting(quick=quick), arm)) for arm in bottleneck.ARMS)
    assert abs(one - other) / other < 0.03


@pytest.mark.parametrize("arm, flip, reads", [
    ("rnn", "", False), ("rnn", "vector", True), ("rnn-attention", "", True), ("rnn-attention", "attention", False)])
def test_flips_of_the_bottleneck_give_attention_and_take_it_away(arm, flip, reads):
    model = bottleneck.model_of(flipped(flip), arm)
    assert isinstance(model.stack.reader, Attention) is reads
    assert model.stack.d_out == bottleneck.model_of(QUICK, arm).stack.d_out


def test_the_verdict_on_the_bottleneck_asks_for_training_and_equal_sizes():
    def seed(short, long, parameters=100):
        return {"rnn": {"accuracy": [short, long], "parameters": parameters},
                "rnn-attention": {"accuracy": [1.0, 1.0], "parameters": 100}}

    assert verdicts("bottleneck", seed(1.0, 0.6))[0] == HOLDS
    assert verdicts("bottleneck", seed(1.0, 1.0))[0] == FAILS
    assert verdicts("bottleneck", seed(0.5, 0.2))[0] == UNCLEAR         # not trained
    assert verdicts("bottleneck", seed(1.0, 0.6, 80))[0] == UNCLEAR     # smaller


# ---------------------------------------------------------------------------------------------------- alignment


def hand_made():
    """One pair of two source words and two target words, then <eos>."""
    source, targets = torch.tensor([[5, 6, EOS]]), torch.tensor([[7, 8, EOS]])
    batch = Exercise(targets, targets, targets > 0, source, torch.tensor([3]))
    weights = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.0, 0.0, 1.0]]])
    lost = torch.tensor([[[4.0, 0.5, 9.0], [3.0, 2.0, 9.0], [9.0, 9.0, 9.0]]])
    return weights, lost, batch


def test_agreement_is_of_words_and_not_of_ends():
    weights, lost, batch = hand_made()
    said = alignment.agreement(weights, lost, batch)
    assert said == pytest.approx({"lost_attended": (4 + 2) / 2, "lost_others": (0.5 + 3) / 2, "agrees": 0.5,
                                  "caused": 1.0})


def test_where_nothing_matters_there_is_no_agreement_to_speak_of():
    weights, lost, batch = hand_made()
    nothing = alignment.agreement(weights, torch.zeros_like(lost), batch)
    assert nothing["caused"] == 0.0 and math.isnan(nothing["agrees"])
    arm = {"aer_diagonal": 0.4, "aer_best": 0.2, "lost_attended": 2.0, "lost_others": 0.1}
    for agrees, verdict in ((0.8, HOLDS), (0.97, FAILS), (math.nan, UNCLEAR)):
        seed = {name: {**arm, "agrees": agrees} for name in alignment.MODELS}
        assert verdicts("alignment", seed) == (verdict, [HOLDS] * 3 + [verdict])


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


def test_with_other_ways_closed_the_word_missed_is_the_word_read():
    torch.manual_seed(0)
    _, held_out = phrases()
    batch = held_out.rows(torch.arange(40))
    model = far_apart(translator("rnn-attention", *held_out.vocab, width=8, hidden=8, dropout=0.0, context=16), 1.0)
    with torch.no_grad():
        for weight in model.stack.parameters():
            weight.mul_(3)                                  # what is read is to matter
    alignment.encode_alone(model)
    alignment.sharpen(model)
    maps, lost = alignment.maps_of(model, batch)[0, :, 0], alignment.losses_without(model, batch)
    assert (maps.amax(-1) > 0.9).float().mean() > 0.9       # one word is read, all but for near ties
    unread = (maps < 1e-6) & (batch.source >= FIRST)[:, None]
    unread &= ~(maps.argmax(-1, keepdim=True) == torch.arange(maps.shape[-1]))
    assert float((lost[unread].abs() < 1e-4).float().mean()) > 0.8     # but for those that <unk> would be read at


def test_the_diagonal_is_right_where_nothing_crosses():
    _, held_out = phrases()
    at = next(row for row, links in enumerate(held_out.links) if all(i == j for i, j in links)
              and held_out.source_lengths[row] == held_out.target_lengths[row])
    assert alignment.diagonal(held_out, torch.tensor([at])) == 0.0
    assert alignment.diagonal(held_out, held_out.crossing()) > 0.2


def test_lessons_erase_words_and_those_of_other_pairs_do_not_belong_together():
    learned, _ = phrases()
    plain, told, other = learned.drawn(128, 0, 4), *(
        alignment.lesson(learned, each, 4) for each in (QUICK, flipped("pairs")))
    blank = told.source == UNK
    assert 0.05 < float(blank.sum() / (plain.source >= FIRST).sum()) < 0.15
    assert torch.equal(told.source[~blank], plain.source[~blank])
    assert torch.equal(other.source, told.source.roll(1, 0)) and torch.equal(other.targets, told.targets)
    assert torch.equal(alignment.lesson(learned, flipped("other-ways"), 4).source, told.source)


# ------------------------------------------------------------------------------------------------ score functions


def test_a_look_up_asks_for_what_the_source_says():
    batch = score_functions.look_up(50, 0, 0)
    words = batch.source[:, :-1] - FIRST
    names, colours = words // score_functions.COLOURS, words % score_functions.COLOURS
    assert (names.sort(1).values == torch.arange(score_functions.NAMES)).all()
    assert torch.equal(colours.gather(1, names.argsort(1)), batch.targets - FIRST)


def test_the_decoder_knows_of_the_source_by_attention_alone():
    torch.manual_seed(0)
    model = score_functions.model_of(QUICK, "dot")
    fit(model, lambda step: score_functions.look_up(8, 0, step), 2)
    assert all(not weight.any() for weight in model.stack.bridge.parameters())
    state = model.start(2, None, Source(torch.tensor([[4, 2], [9, 2]]), torch.tensor([2, 2])))
    assert not any(tensor.any() for tensor in state.cell.tensors().values())


def test_an_additive_score_without_keys_reads_all_words_alike():
    torch.manual_seed(0)
    model = score_functions.model_of(QUICK, "additive")
    score_functions.hide_keys(model)
    fit(model, lambda step: score_functions.look_up(8, 0, step), 3)
    scores = model.stack.reader.score(torch.randn(1, 1, 2, 40), torch.randn(1, 1, 5, 40))
    torch.testing.assert_close(scores, scores[..., :1].expand_as(scores))


def test_without_its_tanh_an_additive_score_is_a_sum_of_two():
    torch.manual_seed(0)
    e, q, k = make_score("additive", 2, 4), torch.randn(3, 2, 5, 4), torch.randn(3, 2, 6, 4)
    e.__class__ = score_functions.Separate
    inner = (q @ e.w)[:, :, :, None] + (k @ e.u)[:, :, None]                          # (B, H, T, L, A)
    torch.testing.assert_close(e(q, k), (inner * e.v[:, None, None, :, 0]).sum(-1))


def test_only_the_plain_dot_product_saturates_and_the_scale_is_why():
    torch.manual_seed(0)
    for setting, grows, steady in ((QUICK, "dot", "scaled-dot"), (flipped("scale"), "scaled-dot", "dot")):
        found = score_functions.largest(setting)
        assert found[grows][-1] - found[grows][0] > 0.3 and abs(found[steady][-1] - found[steady][0]) < 0.1


# ----------------------------------------------------------------------------------------------------- pooling


def test_the_value_of_the_key_is_asked():
    batch = pooling.look_up(100, 0, 0)
    for row, target in zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), strict=True):
        entries = dict(divmod(word - FIRST, pooling.VALUES) for word in row[:-1])
        assert len(entries) == pooling.ENTRIES and target == FIRST + entries[row[-1] - pooling.ASKED]


def test_both_ways_of_pooling_have_equally_many_parameters():
    for build in (pooling.classifier, pooling.decoder):
        mean, attention = (parameters(build(each, "cpu")) for each in (False, True))
        assert abs(mean - attention) / attention < 0.03


def test_even_weights_stay_even_while_the_rest_learns():
    torch.manual_seed(0)
    model = pooling.even(pooling.classifier(True, "cpu"))
    weight = next(layer.qkv.weight for layer in model.modules() if hasattr(layer, "qkv"))
    before = weight.detach().clone()
    fit(model, lambda step: pooling.look_up(8, 0, step), 3)
    assert not weight[:32].any() and (weight[32:] != before[32:]).any()
    decoder = pooling.even(pooling.decoder(True, "cpu"))
    fit(decoder, lambda step: pooling.reversed_words(8, (2, 4), pooling.WORDS, 0, step), 3)
    assert not decoder.stack.reader.query.weight.any() and decoder.stack.reader.key.weight.any()


# ------------------------------------------------------------------------------------------------ decoder-only


def test_both_translators_have_the_weights_they_are_given():
    one, other = (parameters(decoder_only.built(kind, (254, 254), "cpu")) for kind in decoder_only.FAMILIES)
    assert one == pytest.approx(decoder_only.WEIGHTS, rel=0.03) and one == pytest.approx(other, rel=0.03)


def test_a_hidden_source_is_as_long_and_says_nothing():
    _, held_out = phrases()
    batch = held_out.all()
    hidden = decoder_only.hide_source(batch)
    assert torch.equal(hidden.source == UNK, batch.source >= FIRST) and not (hidden.source >= FIRST).any()
    assert torch.equal(hidden.source == EOS, batch.source == EOS) and hidden.targets is batch.targets


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


def test_who_waits_says_the_whole_target_after_the_source():
    longest = one_to_one.LONGEST
    _, lines = one_to_one.pairs("unequal", 20, 0, 0)
    at_once, waits = (one_to_one.one_to_one_batch("unequal", 20, 0, 0, each) for each in (False, True))
    assert torch.equal(waits.tokens[:, :longest], at_once.tokens)
    assert (waits.tokens[:, longest:] == one_to_one.BLANK).all()
    assert not waits.counts[:, :longest].any() and waits.counts[:, longest:].all()
    for row, line in zip(waits.targets[:, longest:].tolist(), lines, strict=True):
        assert one_to_one.until_end(row) == line
    assert any(one_to_one.until_end(row) != line for row, line in zip(at_once.targets.tolist(), lines, strict=True))


def test_a_shortened_source_has_its_first_words_and_the_target_of_all():
    batch = one_to_one.pair_batch("reversed", 6, 0, 0)
    short = one_to_one.shorten(batch, 2)
    assert torch.equal(short.source[:, :2], batch.source[:, :2]) and (short.source[:, 2] == EOS).all()
    assert short.source_lengths.tolist() == [3] * 6 and short.targets is batch.targets
    assert torch.equal(one_to_one.shorten(batch, one_to_one.LONGEST).source, batch.source)


# ------------------------------------------------------------------------------------------------- forward only


def test_a_later_word_decides_what_each_word_means():
    last, first = (forward_only.at_the_word(30, 0, 0, each) for each in (False, True))
    twice = forward_only.read_twice(30, 0, 0)
    for row, means in zip(last.tokens.tolist(), last.targets.tolist(), strict=True):
        dialect = row[-1] - forward_only.DIALECT
        assert 0 <= dialect < forward_only.DIALECTS and means[-1] == 0
        assert means[:-1] == [FIRST + (word - FIRST + 2 * dialect) % forward_only.WORDS for word in row[:-1]]
    assert torch.equal(first.tokens, last.tokens.roll(1, 1)) and torch.equal(first.targets, last.targets.roll(1, 1))
    length = forward_only.LENGTH
    assert torch.equal(twice.tokens[:, :length + 1], last.tokens) and not twice.counts[:, :length + 1].any()
    assert torch.equal(twice.tokens[:, length + 1:], last.tokens[:, :-1])
    assert torch.equal(twice.targets[:, length + 1:], last.targets[:, :-1]) and last.counts.sum() == 30 * length


def test_only_without_the_mask_an_early_word_knows_of_a_later_one():
    torch.manual_seed(0)
    model = forward_only.model_of(2, "cpu")
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    tokens = forward_only.at_the_word(4, 0, 0).tokens
    later = tokens.clone()
    later[:, -1] = forward_only.DIALECT + (later[:, -1] - forward_only.DIALECT + 1) % forward_only.DIALECTS

    def apart():
        with torch.no_grad():
            return float((model.encode(tokens)[0] - model.encode(later)[0])[:, :-1].abs().max())

    assert apart() == 0
    forward_only.unmask(model)
    assert apart() > 1e-3


def test_the_verdict_on_forward_only_follows_each_number():
    def seed(at_once=0.25, deeper=0.25, twice=1.0, both=1.0, first=1.0):
        found = zip(forward_only.ARMS, (both, at_once, deeper, first, twice), strict=True)
        return {name: {"right": right} for name, right in found}

    assert verdicts("forward-only", seed())[0] == HOLDS
    for broken in (dict(at_once=1.0), dict(deeper=1.0), dict(twice=0.3)):
        assert verdicts("forward-only", seed(**broken))[0] == FAILS
    for untold in (dict(both=0.5), dict(first=0.5)):
        assert verdicts("forward-only", seed(**untold))[0] == UNCLEAR
