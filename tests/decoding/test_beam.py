"""Beam search: wide enough it finds what trying everything finds, one beam is greedy, and batches do not matter."""

import itertools

import pytest
import torch

from regard.contract import Source
from regard.decoding import beam as searching
from regard.decoding.beam import BeamOptions, beam_search
from regard.decoding.best import best_by_definition, best_of
from regard.decoding.sampling import Sampling
from regard.decoding.source_attention import source_weights
from regard.decoding.stream import generate_tokens
from regard.errors import RunError, SettingError
from regard.families import FAMILIES
from regard.families.family import randomised
from regard.families.translate import TRANSLATE
from regard.layers.attentive import AttentiveRecurrence
from regard.layers.cross_attention import CrossAttention
from regard.layers.gated import GRU
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack
from regard.models.encoders import RecurrentEncoder
from regard.models.seq2seq import Prefix, Seq2Seq
from regard.watching import watch

V, BOS, EOS = 7, 1, 2
BANNED = (0, 1, 3)
ITEMS = [[4, 5, 6, 2], [5, 2], [6, 6, 4, 5, 2], [4, 2], [5, 4, 2]]


def attentive():
    encoder = RecurrentEncoder(GRU, vocab=V, width=6, hidden=3)
    return Seq2Seq(encoder, AttentiveRecurrence(6, 6, d_memory=6, d_summary=6, feeding=True), vocab=V)


def crossing():
    encoder = RecurrentEncoder(GRU, vocab=V, width=6, hidden=3)
    return Seq2Seq(encoder, Stack([Block(SelfAttention(6, heads=1), None), Block(CrossAttention(6, 6, heads=2), None)]),
                   vocab=V)


def prefix():
    return Prefix(Stack([Block(SelfAttention(6, heads=1), None)]), vocab=V, context=40)


def placing():
    """No keys, and values of a width of their own."""
    encoder = RecurrentEncoder(GRU, vocab=V, width=6, hidden=3)
    layers = [Block(SelfAttention(6, heads=2, score="location", places=40, value_width=5, positions="none"), None),
              Block(CrossAttention(6, 6, heads=2, score="location", places=40, value_width=3), None)]
    return Seq2Seq(encoder, Stack(layers), vocab=V)


MODELS = {"attentive": attentive, "crossing": crossing, "prefix": prefix, "placing": placing}


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(1)
    return randomised(MODELS[request.param]()).double().eval()


def batch(items):
    lengths = torch.tensor([len(each) for each in items])
    padded = torch.zeros(len(items), int(lengths.max()), dtype=torch.long)
    for row, each in enumerate(items):
        padded[row, :len(each)] = torch.tensor(each)
    return Source(padded, lengths)


def found(model, items, limit=4, **how):
    return beam_search(model, batch(items), limits=[limit] * len(items), options=BeamOptions(**how), begin=BOS, end=EOS,
                       banned=BANNED)


@torch.no_grad()
def log_prob(model, items, target):
    tokens, targets = torch.tensor([[BOS, *target]]), torch.tensor([[*target, EOS]])
    return float(model.score(tokens, targets, model.start(1, None, batch([items])))[0].sum())


def everything(model, items, limit):
    """Every target with its end within the limit, best first by log p / tokens."""
    words = [word for word in range(V) if word not in (*BANNED, EOS)]
    targets = [target for n in range(limit) for target in itertools.product(words, repeat=n)]
    scored = [(log_prob(model, items, target) / (len(target) + 1), target) for target in targets]
    return sorted(scored, reverse=True)


def test_wide_enough_it_finds_what_trying_everything_finds(model):
    for items in ITEMS[:3]:
        tried = everything(model, items, 4)
        (best,) = found(model, [items], width=200, n_best=5)
        assert [each.tokens for each in best] == [target for _, target in tried[:5]]
        assert [each.score for each in best] == pytest.approx([score for score, _ in tried[:5]], abs=1e-10)


def test_one_beam_is_greedy(model):
    for items in ITEMS:
        text = []
        for (token,) in generate_tokens(model, [[BOS]], new_tokens=6, sampling=Sampling(temperature=0), end=EOS,
                                        banned=BANNED, source=batch([items])):
            if token is not None:
                text.append(token)
        ((best,),) = found(model, [items], limit=6, width=1)
        assert list(best.tokens) == text


def test_a_source_gives_the_same_in_any_batch_and_order(model):
    alone = [found(model, [items], width=3, n_best=3)[0] for items in ITEMS]
    order = [3, 0, 4, 2, 1]
    for together, chosen in ((found(model, ITEMS, width=3, n_best=3), range(5)),
                             (found(model, [ITEMS[i] for i in order], width=3, n_best=3), order)):
        for own, i in zip(together, chosen, strict=True):
            assert [each.tokens for each in own] == [each.tokens for each in alone[i]]
            assert [each.log_prob for each in own] == pytest.approx([each.log_prob for each in alone[i]], abs=1e-10)


def test_each_score_is_what_the_model_says_of_its_target(model):
    for items, own in zip(ITEMS, found(model, ITEMS, width=4, n_best=4, limit=6), strict=True):
        assert own == sorted(own, key=lambda each: -each.score) and len({each.tokens for each in own}) == len(own)
        for each in own:
            if each.finished:
                assert each.log_prob == pytest.approx(log_prob(model, items, each.tokens), abs=1e-10)
                assert each.score == pytest.approx(each.log_prob / (len(each.tokens) + 1))


def test_limits_are_each_sources_own(model):
    limits = [1, 5, 2, 4, 3]
    results = beam_search(model, batch(ITEMS), limits=limits, options=BeamOptions(width=2), begin=BOS, end=EOS,
                          banned=BANNED)
    for (best,), limit, items in zip(results, limits, ITEMS, strict=True):
        assert len(best.tokens) + best.finished <= limit
        ((alone,),) = beam_search(model, batch([items]), limits=[limit], options=BeamOptions(width=2), begin=BOS,
                                  end=EOS,
                                  banned=BANNED)
        assert best.tokens == alone.tokens


def test_no_n_gram_is_said_twice(model):
    for n in (1, 2):
        for own in found(model, ITEMS, width=3, n_best=3, limit=8, no_repeat=n):
            for each in own:
                grams = [each.tokens[i:i + n] for i in range(len(each.tokens) - n + 1)]
                assert len(set(grams)) == len(grams)


def test_a_language_model_without_a_source_is_searched_too():
    model = FAMILIES["rnn"].example(torch.float64)
    ((best,),) = beam_search(model, None, limits=[5], options=BeamOptions(width=3), begin=1, end=2, banned=(0, 1, 3))
    assert set(best.tokens).isdisjoint({0, 1, 2, 3})


@pytest.mark.parametrize("wrong, message", [
    (dict(width=0), "--beam 0"), (dict(n_best=6), "--n-best 6"), (dict(length=-1), "--length-penalty -1"),
    (dict(length=float("nan")), "--length-penalty nan"), (dict(no_repeat=-1), "--no-repeat -1"),
    (dict(coverage=-0.1), "--coverage -0.1")])
def test_what_cannot_be_searched_is_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        BeamOptions(**wrong)


# ------------------------------------------------------------------------------------------ the fast parts


@pytest.mark.parametrize("vocab", [1, 7, 63, 64, 65, 128, 300])
@pytest.mark.parametrize(("k", "number"), [(1, 2), (3, 6), (5, 10), (4, 1)])
def test_the_best_in_two_steps_are_the_best_by_definition(vocab, k, number):
    torch.manual_seed(vocab)
    log_probs = torch.randn(4 * k, vocab).log_softmax(-1)
    log_probs[:, ::5] = -torch.inf
    totals = -torch.rand(4, k, dtype=torch.float64)
    totals[0, 1:], totals[1] = -torch.inf, -torch.inf
    best, at = best_of(totals, log_probs, number)
    expected, places = best_by_definition(totals, log_probs, number)
    assert torch.equal(best, expected)
    finite = expected.isfinite()
    assert torch.equal(at[finite], places[finite]) and (at < k * vocab).all()


def test_the_best_may_each_stand_in_a_block_of_their_own():
    log_probs, totals = torch.zeros(2, 256), torch.zeros(1, 2, dtype=torch.float64)
    log_probs[0, [0, 70, 140, 210]] = torch.tensor([4.0, 3.0, 2.0, 1.0])
    assert torch.equal(best_of(totals, log_probs, 4)[1], torch.tensor([[0, 70, 140, 210]]))
    log_probs[1, 255] = 5.0                                            # behind the last whole block there is none
    assert torch.equal(best_of(totals, log_probs, 4)[1], torch.tensor([[256 + 255, 0, 70, 140]]))


@pytest.mark.parametrize("name", TRANSLATE)
@torch.no_grad()
def test_reordering_a_spent_state_is_selecting(name):
    family = TRANSLATE[name]
    model, source = family.example(torch.float64), family.example_source()
    tokens = torch.tensor([[1, 4], [1, 5], [1, 6], [1, 7]])
    for rows, sources in (([1, 0, 3, 3], None), ([0, 0, 2, 3], None), ([3, 2], [1]), ([0, 1], [0])):
        state = model.start(4, 6, source)
        _, state = model.step(tokens, state, torch.tensor([2, 2, 1, 2]))
        rows, sources = torch.tensor(rows), None if sources is None else torch.tensor(sources)
        expected, got = state.clone().select(rows, sources), state.clone().reorder(rows, sources)
        for _ in range(2):
            wanted, expected = model.step(tokens[:len(rows), 1:], expected)
            seen, got = model.step(tokens[:len(rows), 1:], got)
            torch.testing.assert_close(seen, wanted, rtol=0, atol=1e-12)


@torch.no_grad()
def test_under_a_gradient_nothing_is_changed_in_place():
    model = TRANSLATE["transformer"].example(torch.float64)
    state = model.start(4, 6, TRANSLATE["transformer"].example_source())
    _, state = model.step(torch.tensor([[1], [4], [5], [6]]), state)
    before = state.clone()
    with torch.enable_grad():
        state.reorder(torch.tensor([1, 0, 2, 3]))
    for name, tensor in before.tensors().items():
        assert torch.equal(state.tensors()[name], tensor), name


def test_the_device_is_asked_once_a_step(model, monkeypatch):
    asked, steps = [], []
    real, step = torch.Tensor.cpu, searching.BeamState.step
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: asked.append(1) or real(x))
    monkeypatch.setattr(searching.BeamState, "step", lambda live: steps.append(1) or step(live))
    for name in ("item", "tolist", "__bool__"):
        monkeypatch.setattr(torch.Tensor, name, lambda *_: pytest.fail("the device was asked"))
    monkeypatch.setattr("regard.layers.cache.KeyValueCache.written", lambda cache: cache.keys.shape[1])
    monkeypatch.setattr("regard.layers.cache.KeyValueCache.together", lambda cache: None)
    found(model, ITEMS, width=3, limit=6)
    assert len(asked) == len(steps) > 1


# -------------------------------------------------------------------------------------------- coverage


def covered(model, items, tokens):
    """The penalty by its definition: the mean weights of every step that wrote a token or the end, added up."""
    state, amount = model.start(1, 12, batch([items])), torch.zeros(len(items), dtype=torch.float64)
    for token in (BOS, *tokens):
        with watch() as seen:
            _, state = model.step(torch.tensor([[token]]), state)
        layers = source_weights(model, batch([items]), seen.readings, rows=1, whole=False)
        amount += torch.stack([weights[0, :, -1].mean(0) for weights in layers]).mean(0)
    return float(amount.clamp(1e-10, 1).log().sum())


@torch.no_grad()
def test_coverage_counts_what_was_left_unread(model):
    for items, own in zip(ITEMS, found(model, ITEMS, width=3, n_best=3, coverage=0.7), strict=True):
        for each in own:
            if each.finished:
                plain = each.log_prob / (len(each.tokens) + 1)
                assert each.score == pytest.approx(plain + 0.7 * covered(model, items, each.tokens), abs=1e-9)


def test_coverage_does_not_depend_on_the_batch(model):
    together = found(model, ITEMS, width=3, n_best=3, coverage=0.7)
    for items, own in zip(ITEMS, together, strict=True):
        alone = found(model, [items], width=3, n_best=3, coverage=0.7)[0]
        assert [each.tokens for each in alone] == [each.tokens for each in own]
        assert [each.score for each in alone] == pytest.approx([each.score for each in own], abs=1e-10)


def test_coverage_needs_attention_to_a_source():
    family = TRANSLATE["rnn"]
    with pytest.raises(RunError, match=r"no attention to its source.*leave --coverage out"):
        beam_search(family.example(torch.float64), family.example_source(), limits=[3, 3],
                    options=BeamOptions(coverage=0.2),
                    begin=BOS, end=EOS)
    with pytest.raises(SettingError, match="--coverage is about what is read of a source"):
        beam_search(FAMILIES["rnn"].example(torch.float64), None, limits=[3], options=BeamOptions(coverage=0.2),
                    begin=1, end=2)


def test_as_many_tokens_are_read_as_the_limit_says_and_no_more():
    model = TRANSLATE["transformer"].example(torch.float64)
    asked = []
    start = model.start
    model.start = lambda batch, capacity, source: asked.append(capacity) or start(batch, capacity, source)
    beam_search(model, TRANSLATE["transformer"].example_source(), limits=[5, 7], begin=BOS, end=EOS, banned=(0, 1, 2))
    assert asked == [7]


# ------------------------------------------------------------------------------- observing, forcing, prompting


@pytest.mark.parametrize("how", [dict(), dict(coverage=0.4), dict(no_repeat=2), dict(width=1, n_best=1)])
def test_being_observed_changes_nothing(model, how):
    def spoil(step):
        """An observer that writes into everything it was given."""
        seen.append(step.sources)
        for each in (step.totals, step.log_probs):
            each.fill_(0.0)
        for each in (step.best, step.beams, step.tokens, step.finished, step.order):
            each[:] = 0

    seen, how = [], dict(width=3, n_best=3) | how
    options = dict(limits=[6, 2, 6, 4, 5], options=BeamOptions(**how), begin=BOS, end=EOS, banned=BANNED)
    assert beam_search(model, batch(ITEMS), observer=spoil, **options) == beam_search(model, batch(ITEMS), **options)
    assert seen[0] == (0, 1, 2, 3, 4) and not any(1 in sources for sources in seen[2:])        # which may have two


def test_an_observer_is_told_what_the_search_did(model):
    steps = []
    (best,) = beam_search(model, batch(ITEMS[:1]), limits=[5], options=BeamOptions(width=3, n_best=3), begin=BOS,
                          end=EOS,
                          banned=BANNED, observer=steps.append)
    said = [()]
    ended = set()
    for step in steps:
        for at in range(step.best.shape[1]):
            if step.finished[0, at]:
                assert step.tokens[0, at] == EOS
                ended.add((said[int(step.beams[0, at])], float(step.best[0, at])))
        said = [(*said[int(step.beams[0, at])], int(step.tokens[0, at])) for at in step.order[0]]
    assert ended == {(each.tokens, each.log_prob) for each in best if each.finished}


def test_a_forced_prefix_is_how_every_target_begins(model):
    """Wide enough, it finds the best of all that begin so; what was forced is scored like everything else."""
    for items in ITEMS[:3]:
        tried = [each for each in everything(model, items, 4) if each[1][:2] == (5, 4)]
        (best,) = beam_search(model, batch([items]), limits=[4], options=BeamOptions(width=200, n_best=3), begin=BOS,
                              end=EOS,
                              banned=BANNED, force=[5, 4])
        assert [each.tokens for each in best] == [target for _, target in tried[:3]]
        assert [each.score for each in best] == pytest.approx([score for score, _ in tried[:3]], abs=1e-10)


def test_forcing_what_would_be_said_anyway_changes_nothing(model):
    for items in ITEMS:
        ((greedy,),) = found(model, [items], limit=6, width=1)
        for cut in range(len(greedy.tokens) + 1):
            if cut < 6:
                ((forced,),) = beam_search(model, batch([items]), limits=[6], options=BeamOptions(width=1), begin=BOS,
                                           end=EOS,
                                           banned=BANNED, force=greedy.tokens[:cut])
                assert forced == greedy


@pytest.mark.parametrize("force, message", [
    ([4, 4, 4], r"3 tokens leaves no room.*may have 3: force fewer"), ([4, EOS], r"has the end \(token 2\)"),
    ([V], "token 7 in it: tokens go from 0 to 6"), ([3], "token 3 in it, which may not be written")])
def test_what_cannot_be_forced_is_refused(force, message):
    with pytest.raises(SettingError, match=message):
        beam_search(attentive(), batch(ITEMS[:1]), limits=[3], begin=BOS, end=EOS, banned=BANNED, force=force)


@torch.no_grad()
def test_a_prompt_is_read_and_not_scored(any_model):
    prompt, banned = [BOS, 5, 4, 6], (0, 1, 3)
    how = BeamOptions(width=3, n_best=3)
    (best,) = beam_search(any_model, None, limits=[4], options=how, begin=prompt, end=EOS, banned=banned)
    for each in best:
        said = [*each.tokens, EOS] if each.finished else list(each.tokens)
        tokens = torch.tensor([[*prompt, *said]])
        scores, _ = any_model.score(tokens[:, :-1], tokens[:, 1:])
        assert each.log_prob == pytest.approx(float(scores[0, len(prompt) - 1:].sum()), abs=1e-9)
        assert each.score == pytest.approx(each.log_prob / len(said))
