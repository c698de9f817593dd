"""Claims about structure: tasks have the answers they say, measures measure, and what is to be broken is broken."""

import math

import pytest
import torch

from regard.lab.claims import cheating, depth, heads, order, past_the_end, softmax
from regard.lab.exercises import FIRST, letters, reversed_words, story_text
from regard.lab.experiment import Setting
from regard.lab.find import experiment
from regard.lab.tiny import language_model, loss_on, parameters
from regard.lab.verdict import FAILS, HOLDS, judge
from regard.layers.self_attention import SelfAttention

NAMES = ("bottleneck", "order", "past-the-end", "cheating", "depth", "heads", "softmax", "pooling")


@pytest.mark.parametrize("name", NAMES)
def test_each_claim_has_arms_of_different_names_and_rules(name):
    one = experiment(name)
    assert len({arm.name for arm in one.arms}) == len(one.arms) and one.rules


# ----------------------------------------------------------------------------------------------- letters


def test_letters_come_from_the_stories_and_held_out_ones_are_never_learned_from():
    known, text = story_text(0)
    batch = letters(50, 20, 0, 3)
    assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1]) and batch.counts.all()
    assert torch.equal(batch.tokens, letters(50, 20, 0, 3).tokens)
    assert not torch.equal(batch.tokens, letters(50, 20, 0, 4).tokens)
    written = "".join(known[each - FIRST] for each in text.tolist())
    border = len(text) * 9 // 10
    for step, part in ((3, written[:border + 1]), (-1, written[border:])):
        rows = letters(20, 60, 0, step)
        for row in torch.cat((rows.tokens, rows.targets[:, -1:]), 1).tolist():
            assert "".join(known[each - FIRST] for each in row) in part


# ------------------------------------------------------------------------------------------------- order


def test_who_came_first_is_the_one_further_left():
    batch = order.who_came_first(200, 0, 0)
    for row, answer in zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), strict=True):
        assert answer == min((order.X, order.Y), key=row.index) and row[-1] == order.QUESTION
    assert batch.counts.sum() == 200 and 60 < (batch.targets[:, -1] == order.X).sum() < 140


def test_every_word_is_asked_for_its_own_place():
    batch = order.which_place(3, 0, 0)
    assert (batch.tokens[:, 0] == 1).all() and not batch.counts[:, 0].any() and batch.counts[:, 1:].all()
    assert (batch.targets[:, 1:] == order.PLACES + torch.arange(order.LENGTH)).all()
    assert batch.targets.max() < order.VOCAB and batch.tokens.max() < order.PLACES


@pytest.mark.parametrize("kind, same", [("set", True), ("positions", False), ("causal", False)])
def test_only_without_positions_and_mask_the_answer_ignores_the_order(kind, same):
    torch.manual_seed(0)
    model = order.model_of(kind, "cpu").double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.4)
        batch = order.who_came_first(4, 0, 0)
        shuffled = torch.cat((batch.tokens[:, torch.randperm(order.LENGTH)], batch.tokens[:, -1:]), 1)

        def last(tokens):
            out = model.encode(tokens)
            return (out[0] if isinstance(out, tuple) else out.vectors)[:, -1]

        assert torch.allclose(last(batch.tokens), last(shuffled), atol=1e-9) is same


# ------------------------------------------------------------------------------------------ past the end


def test_learned_positions_refuse_the_next_place():
    assert past_the_end.refusal(Setting())["refuses"] == 1
    assert "33 tokens" in past_the_end.refusal(Setting())["says"]


def test_the_verdict_past_the_end_follows_the_losses():
    one = experiment("past-the-end")

    def seed(learned, rotary):
        return {"refusal": {"refuses": 1.0}, "learned": {"grows": learned}, "sinusoidal": {"grows": 0.1},
                "rotary": {"grows": rotary}, "alibi": {"grows": 0.0}}

    assert judge(one, [seed(1.0, 0.2)] * 3)[0] == HOLDS
    assert judge(one, [seed(1.0, 0.9)] * 3)[0] == FAILS
    assert judge(one, [seed(0.05, 0.0)] * 3)[0] == FAILS


# ---------------------------------------------------------------------------------------------- cheating


def small_language(**settings):
    torch.manual_seed(0)
    known, _ = story_text(0)
    model = language_model("transformer", FIRST + len(known), layers=1, width=16, heads=2, **settings)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    return model


def test_without_the_mask_a_score_depends_on_what_comes_later():
    batch = letters(2, 12, 0, 0)
    later = batch.tokens.clone()
    later[:, 6:] = FIRST
    model = small_language(context=12)

    def early(tokens):
        return model.score(tokens, batch.targets)[0][:, :6]

    assert torch.allclose(early(batch.tokens), early(later), atol=1e-6)
    cheating.unmask(model)
    assert (early(batch.tokens) - early(later)).abs().max() > 1e-3


def test_honest_loss_hides_what_comes_later_from_both():
    model = small_language(context=cheating.CONTEXT)
    batch = letters(64, cheating.CONTEXT, 0, -1)
    assert cheating.honest_loss(model, 0) == pytest.approx(loss_on(model, batch), abs=1e-5)
    cheating.unmask(model)
    assert abs(cheating.honest_loss(model, 0) - loss_on(model, batch)) > 1e-4


def test_words_are_counted_without_their_marks_and_without_cut_ends():
    assert cheating.real_words(['xx garden, "Nora" qqq. yy'], 0) == pytest.approx(2 / 3)
    assert cheating.real_words([""], 0) == 0


# ------------------------------------------------------------------------------------------------- depth


def test_a_plain_block_adds_nothing_and_the_start_is_the_same():
    torch.manual_seed(0)
    both = depth.stack_of(2, 9, residuals=True, norms=True)
    torch.manual_seed(0)
    neither = depth.stack_of(2, 9, residuals=False, norms=False)
    for one, other in zip(both.stack.layers[1:], neither.stack.layers[1:], strict=True):
        assert torch.equal(one.mixer.qkv.weight, other.mixer.qkv.weight)
    block, x = neither.stack.layers[1], torch.randn(2, 5, depth.WIDTH)
    mixed, _ = block.mixer(x)
    torch.testing.assert_close(block(x)[0], block.feed(mixed))
    assert parameters(neither) == parameters(both) - 5 * depth.WIDTH              # four norms, and the last


def test_gradients_are_of_each_block_and_fade_with_neither():
    known, _ = story_text(0)
    found = {}
    for kind, how in depth.KINDS.items():
        torch.manual_seed(0)
        model = depth.stack_of(12, FIRST + len(known), *how, careful=False)
        found[kind] = depth.gradients(model, 0)
        assert len(found[kind]) == 12 and all(weight.grad is None for weight in model.parameters())
    assert found["both"][0] > 1e3 * found["neither"][0]


def test_a_flip_takes_the_residuals_or_the_depth(monkeypatch):
    monkeypatch.setattr(depth, "fit", lambda *args, **more: None)
    built = []
    usual = depth.stack_of
    monkeypatch.setattr(depth, "stack_of", lambda *args, **more: built.append(args[0::2]) or usual(*args, **more))
    assert depth.trained(Setting(quick=True, flipped="residuals"), "both")["depths"] == (12,)
    assert {residuals for _, residuals in built} == {False}
    assert depth.trained(Setting(quick=True, flipped="depth"), "neither")["depths"] == (2,)
    assert len(depth.trained(Setting(quick=True, flipped="depth"), "both")["gradients, usual"]) == 2


def test_entropy_of_even_letters_is_the_log_of_their_number():
    assert depth.entropy(FIRST + torch.arange(8).repeat(3)) == pytest.approx(math.log(8))


# ------------------------------------------------------------------------------------------------- heads


def test_a_head_that_plays_a_role_scores_one_in_it_and_no_other():
    time = 6
    previous = torch.zeros(time, time)
    previous[torch.arange(1, time), torch.arange(time - 1)] = 1
    first = torch.zeros(time, time)
    first[:, 0] = 1
    scores = heads.score_of_roles(torch.stack((previous, first))[None])
    assert scores["previous"].tolist() == [1, 0] and scores["first"].tolist() == [0, 1]


def test_the_alignment_of_reversed_words_is_what_an_alignment_head_reads():
    batch = reversed_words(16, (3, 6), heads.WORDS, 0, 0)
    weights = torch.zeros(16, 2, batch.tokens.shape[1], batch.source.shape[1])
    for row, (source, target) in enumerate(zip(batch.source.tolist(), batch.targets.tolist(), strict=True)):
        size = source.index(2)
        for t in range(size):
            assert target[t] == FIRST + (source[size - 1 - t] - FIRST + 1) % heads.WORDS
            weights[row, 0, t, size - 1 - t] = 1
            weights[row, 1, t, t] = 0.5
    scores = heads.score_of_alignment(weights, batch.source_lengths)
    assert scores[0] == 1 and scores[1] < 0.2


def test_one_head_costs_as_much_as_four_and_the_table_is_the_seeds():
    four, one = (heads.language_model("transformer", 20, layers=1, width=32, heads=n, context=8) for n in (4, 1))
    assert parameters(four) == parameters(one)
    batch = heads.first_and_previous(300, 1, 0)
    table = {}
    for row, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        for t in range(2, heads.LENGTH):
            assert table.setdefault((row[0], row[t - 1]), targets[t]) == targets[t]
    assert len(set(table.values())) > 4 and not batch.counts[:, :2].any()


def test_without_the_topic_only_the_word_before_tells_the_answer():
    batch = heads.first_and_previous(300, 1, 0, topic=False)
    table = {}
    for row, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        for t in range(2, heads.LENGTH):
            assert table.setdefault(row[t - 1], targets[t]) == targets[t]
    assert len(table) == heads.WORDS


def test_other_words_of_a_source_tell_nothing_of_the_target():
    told, other = (task(200, (3, 6), heads.WORDS, 0, 0) for task in (reversed_words, heads.other_words))
    assert torch.equal(other.targets, told.targets) and torch.equal(other.source_lengths, told.source_lengths)
    words = told.source >= FIRST
    assert torch.equal(words, other.source >= FIRST) and torch.equal(told.source[~words], other.source[~words])
    same = (other.source == told.source)[words].float().mean()
    assert abs(same - 1 / heads.WORDS) < 0.06


# ----------------------------------------------------------------------------------------------- softmax


def test_weights_by_softmax_are_attention_and_the_others_are_not():
    torch.manual_seed(0)
    layer, x = SelfAttention(8, heads=2), torch.randn(2, 7, 8)
    usual = layer(x)[0]
    outputs = {}
    for name, weigh in softmax.WEIGHTS.items():
        softmax.reweigh(layer, weigh)
        outputs[name] = layer(x)[0]
    torch.testing.assert_close(outputs["softmax"], usual)
    for name in ("unnormalised", "sigmoid"):
        assert (outputs[name] - usual).abs().max() > 1e-2
    later = x.clone()
    later[:, 4:] = 9.0
    for weigh in softmax.WEIGHTS.values():                 # the mask still hides what comes later
        softmax.reweigh(layer, weigh)
        assert torch.equal(layer(x)[0][:, :4], layer(later)[0][:, :4])


def test_flips_bound_the_weights_that_grow_and_let_the_bounded_grow():
    scores = torch.tensor([-2.0, 0.0, 3.0])
    bounded, free = softmax.FLIPPED["growth"]["unnormalised"](scores), softmax.FLIPPED["bound"]["sigmoid"](scores)
    torch.testing.assert_close(bounded, scores.exp().clamp(max=1))
    torch.testing.assert_close(free, torch.sigmoid(scores) * (1 + scores.exp()))


# ------------------------------------------------------------------------------------------ whole, in small


def test_giving_positions_takes_the_cause_away(monkeypatch):
    monkeypatch.setattr(order, "TASKS", {"place": order.which_place})
    monkeypatch.setattr(Setting, "pick", lambda self, full, quick: 60)
    lost, told = (order.trained(Setting(quick=True, flipped=flipped), "set")["place"] for flipped in ("", "positions"))
    assert abs(lost - 1 / order.LENGTH) < 0.05 and told > 0.6
