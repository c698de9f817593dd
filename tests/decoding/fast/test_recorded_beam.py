"""Steps of a fixed number of sources find what `BeamState` finds. Without a GPU the step stands in for its recording.

Where there is a GPU everything here runs on it, recorded.
"""

import gc
import os
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from regard.contract import Source
from regard.decoding.beam import BeamOptions, BeamState, beam_search
from regard.decoding.fast import recorded_beam
from regard.decoding.fast.recorded_beam import RECORDINGS, RecordedBeamSteps, RecordedRows, add_room, size_for
from regard.families import FAMILIES
from regard.families.family import randomised
from regard.families.translate import TRANSLATE, PairTransformerSettings, Vocabularies, build_transformer
from regard.models.seq2seq import Prefix
from regard.watching import watch

BOS, EOS, END, BANNED = 1, 2, 7, (0, 1, 3)          # END: what these models say after some tokens
GPU = torch.cuda.is_available() and os.environ.get("REGARD_TEST_DEVICE", "cuda") == "cuda"
DEVICE = "cuda" if GPU else "cpu"
TRAINED = [name for name, family in FAMILIES.items() if family.build is not None]
LENGTHS = [5, 1, 9, 3, 7, 2, 4, 8, 6, 3, 5]
LIMITS = [9, 2, 14, 5, 17, 1, 8, 12, 3, 20, 11]
# What each says after some tokens, and, at last, never.
ENDS = {"transformer": (7, 6, 9), "rnn-attention": (8, 5, 7), "rnn": (6, 2, 4), "prefix": (10, 5, 9)}
HOW = [BeamOptions(width=3, n_best=3), BeamOptions(width=1), BeamOptions(width=2, n_best=2, length=0.0),
       BeamOptions(width=5, n_best=2, length=0.6)]


def sources(lengths=LENGTHS, vocab=11):
    items = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        items[row, :length] = torch.tensor([*((4 + (3 * row + at) % (vocab - 4)) for at in range(length - 1)), EOS])
    return Source(items, torch.tensor(lengths)).to(DEVICE)


def found(model, source, limits=LIMITS, options=HOW[0], **more):
    return beam_search(model, source, limits=limits, options=options, **dict(begin=BOS, end=END, banned=BANNED) | more)


def the_same(one, other, abs=1e-10):
    """Not what stands in for `==`, for a batch of another size may round otherwise."""
    assert [[(each.tokens, each.finished) for each in own] for own in one] == \
           [[(each.tokens, each.finished) for each in own] for own in other]
    for name in ("log_prob", "score"):
        assert [getattr(each, name) for own in one for each in own] == pytest.approx(
            [getattr(each, name) for own in other for each in own], abs=abs)


@pytest.fixture
def fixed(monkeypatch):
    """By steps of a fixed number of sources, on any device, and in sizes from 1 on; `fixed(False)`: as ever."""

    def switch(on):
        monkeypatch.setattr(recorded_beam, "fits", lambda model, rows, limit: on and isinstance(model, nn.Module))

    monkeypatch.setattr(recorded_beam, "LEAST", 1)
    RECORDINGS.clear()
    switch(True)
    yield switch
    RECORDINGS.clear()
    gc.collect()


@pytest.fixture
def sizes(monkeypatch):
    """The sizes of all steps that are taken."""
    taken, ask = [], RecordedBeamSteps.launch
    monkeypatch.setattr(RecordedBeamSteps, "launch", lambda self, size, now: taken.append(size) or ask(self, size, now))
    return taken


def translator(name):
    return TRANSLATE[name].example(torch.float64).to(DEVICE)


# ------------------------------------------------------------------------------------------------ the same


@pytest.mark.parametrize("options", HOW, ids=str)
@pytest.mark.parametrize("name", TRANSLATE)
def test_every_translator_finds_the_same(name, options, fixed, sizes):
    model = translator(name)
    own = [found(model, sources(), options=options, end=end) for end in ENDS[name] * 2]  # at last by what was kept
    assert len(set(sizes)) > 1                                             # some were done earlier than others
    assert not RECORDINGS.why_not(model)
    steps, = RECORDINGS.idle[model].values()
    assert bool(steps.graphs) == GPU
    fixed(False)
    expected = [found(model, sources(), options=options, end=end) for end in ENDS[name]]
    for one, other in zip(own, expected * 2, strict=True):
        the_same(one, other)
    assert {each.finished for one in own for some in one for each in some} == {True, False}


@pytest.mark.parametrize("name", TRAINED)
def test_every_language_model_finds_the_same(name, fixed, sizes):
    model = FAMILIES[name].example(torch.float64).to(DEVICE)
    for prompt in (BOS, [BOS, 5, 4, 6]):
        del sizes[:]
        fixed(True)
        own = found(model, None, begin=prompt)
        assert sizes
        fixed(False)
        the_same(own, found(model, None, begin=prompt))
    assert not RECORDINGS.why_not(model)


@pytest.mark.parametrize("vocab", [5, 6, 7])
def test_a_vocabulary_smaller_than_the_beams(vocab, fixed, sizes):
    model = randomised(build_transformer(PairTransformerSettings(layers=1, width=8, heads=2, context=32, dropout=0.0),
                                         Vocabularies(11, vocab))).double().eval().to(DEVICE)
    own = found(model, sources(), options=BeamOptions(width=6, n_best=6), end=4)
    assert sizes
    fixed(False)
    the_same(own, found(model, sources(), options=BeamOptions(width=6, n_best=6), end=4))


def test_sources_leave_in_any_order_and_few_are_left_alone(fixed, sizes):
    model, count = translator("transformer"), 40
    generator = np.random.default_rng(3)
    lengths = generator.integers(1, 12, count).tolist()
    limits = [int(limit) for limit in generator.permutation([*range(1, 21), *[22] * 20])]
    own = found(model, sources(lengths), limits)
    assert len(set(sizes)) >= 4 and sizes == sorted(sizes, reverse=True)
    fixed(False)
    the_same(own, found(model, sources(lengths), limits))


def test_a_smaller_batch_goes_by_what_a_larger_one_left(fixed, sizes, monkeypatch):
    """Its memory is full of numbers of the earlier search, and of rows that have read as much as they have room for."""
    model, made, original = translator("transformer"), [], RecordedBeamSteps.__init__
    monkeypatch.setattr(RecordedBeamSteps, "__init__", lambda self, *a: made.append(1) or original(self, *a))
    found(model, sources(), [20] * 11, end=10)                             # which it never says
    own = found(model, sources([9, 2, 4]), [19, 18, 20])
    assert len(made) == 1 and sizes[:19] == [12] * 19 and sizes[19] == 3
    fixed(False)
    the_same(own, found(model, sources([9, 2, 4]), [19, 18, 20]))


# --------------------------------------------------------------------------------------- room, and sizes


def test_sizes_are_few_and_waste_little():
    assert [size_for(n) for n in (1, 8, 9, 12, 13, 17, 25, 1000, 1025)] == [8, 8, 12, 12, 16, 24, 32, 1024, 1536]


@pytest.mark.parametrize("settings", [dict(positions="learned"), dict(score="location"), dict(positions="alibi")])
@pytest.mark.parametrize("name", ["transformer", "prefix"])
def test_room_is_never_more_than_a_model_knows_places(name, settings, fixed):
    family = TRANSLATE[name]
    settings = family.settings(**dict(layers=1, width=8, heads=2, context=21, dropout=0.0) | settings)
    model = randomised(family.build(settings, Vocabularies(11, 11))).double().eval().to(DEVICE)
    lengths, limits = [20, 7, 18], [19, 12, 19]
    own = found(model, sources(lengths), limits)
    fixed(False)
    the_same(own, found(model, sources(lengths), limits))


def test_many_lengths_have_the_same_room():
    model = translator("transformer")                                      # reads at most 32
    rooms = {(padded.items.shape[1], room) for length in range(17, 33) for at_most in range(1, 33)
             for padded, room in [add_room(model, sources([length, 3]), at_most)]}
    assert rooms == {(32, 32)}
    prefix = translator("prefix")                                          # 64, of source and target together
    assert isinstance(prefix, Prefix)
    for length, limit in ((30, 30), (17, 40), (40, 24), (1, 63)):
        padded, room = add_room(prefix, sources([length]), limit)
        assert room >= limit and padded.items.shape[1] >= length and room + padded.items.shape[1] <= 64
        assert padded.lengths.tolist() == [length]


def test_a_source_without_lengths_gets_some_and_a_picture_is_left_alone():
    model = translator("rnn")
    padded, _ = add_room(model, Source(sources([5, 5]).items), 9)
    assert padded.items.shape == (2, 16) and padded.lengths.tolist() == [5, 5]
    picture = Source(torch.zeros(2, 3, 8, 8))
    assert add_room(model, picture, 9)[0] is picture


# ------------------------------------------------------------------------------------------ when it is taken


@pytest.mark.parametrize("more", [
    dict(options=BeamOptions(width=2, coverage=0.3)), dict(options=BeamOptions(width=2, no_repeat=2)),
    dict(observer=lambda step: None),
    dict(force=[4])])
def test_what_a_recording_does_not_know_goes_the_old_way(more, fixed, sizes):
    found(translator("transformer"), sources([5, 4]), [6, 7], **more)
    assert not sizes


@pytest.mark.skipif(not torch.cuda.is_available(), reason="about a GPU")
def test_it_is_taken_on_a_gpu_for_enough_rows_and_tokens_when_nobody_watches():
    model = TRANSLATE["rnn"].example().to("cuda")
    assert recorded_beam.fits(model, 16, 8)
    assert not recorded_beam.fits(model, 15, 8) and not recorded_beam.fits(model, 16, 7)
    with watch():
        assert not recorded_beam.fits(model, 16, 8)
    with torch.autocast("cuda", torch.bfloat16):
        assert not recorded_beam.fits(model, 16, 8)


def test_it_is_asked_for_every_beam_of_every_source_and_the_longest_target(monkeypatch):
    asked = []
    monkeypatch.setattr(recorded_beam, "fits", lambda model, rows, limit: asked.append((rows, limit)))
    model = FAMILIES["gru"].example(torch.float64)
    beam_search(model, None, limits=[3, 5], begin=1, end=2, options=BeamOptions(width=4))
    assert asked == [(2 * 4, 5)]


def test_on_a_cpu_it_is_not_taken():
    assert not recorded_beam.fits(TRANSLATE["rnn"].example(), 1000, 1000)


def test_few_recordings_are_kept_and_none_after_the_weights_moved(fixed, monkeypatch):
    model, made, original = translator("transformer"), [], RecordedBeamSteps.__init__
    monkeypatch.setattr(RecordedBeamSteps, "__init__", lambda self, *a: made.append(1) or original(self, *a))
    for width in (1, 2, 3, 4, 5, 5, 4):
        found(model, sources(), options=BeamOptions(width=width))
    assert len(made) == 5 and len(RECORDINGS.idle[model]) == RECORDINGS.most
    for weight in model.parameters():
        weight.data = weight.data.clone()
    found(model, sources(), options=BeamOptions(width=4))
    assert len(made) == 6 and len(RECORDINGS.idle[model]) == 1


def test_a_model_that_nobody_uses_any_more_is_let_go_with_its_recordings(fixed):
    model = translator("transformer")
    found(model, sources())
    assert RECORDINGS.idle[model]
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_changed_weights_are_read_where_they_are(fixed):
    model = translator("rnn-attention")
    found(model, sources())
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(-0.7)
    own = found(model, sources())
    fixed(False)
    the_same(own, found(model, sources()))


def test_what_would_not_fit_goes_the_old_way(fixed, sizes, monkeypatch):
    asked = []
    monkeypatch.setattr(recorded_beam, "has_room", lambda device, nbytes: asked.append(nbytes))
    model = translator("transformer")
    own = found(model, sources(), options=BeamOptions(width=2))
    assert asked and not sizes
    state = model.start(11, 32, add_room(model, sources(), 20)[0])
    steps = RecordedBeamSteps(model, state, size_for(11), 2, BANNED, 11)
    shared = []
    steps.states[0].map(lambda t: t, lambda t: shared.append(t.nbytes) or t)
    assert asked == [steps.nbytes() - sum(shared)]
    fixed(False)
    the_same(own, found(model, sources(), options=BeamOptions(width=2)))


def test_what_takes_more_than_its_share_is_not_kept(fixed, monkeypatch):
    model = translator("rnn")
    monkeypatch.setattr(RECORDINGS, "most_bytes", lambda device: 0)
    found(model, sources())
    assert not RECORDINGS.idle[model]


def test_a_model_that_cannot_be_recorded_goes_on_and_is_not_tried_again(fixed, sizes, monkeypatch):
    def refuse(self, size, now):
        RECORDINGS.refuse(self.model, RuntimeError("operation not permitted\nmore"))

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(RecordedBeamSteps, "record", refuse)
    monkeypatch.setattr(RecordedBeamSteps, "_run", lambda self, size,
                        now: self.record(size, now) or self.step(size, now))
    model = translator("transformer")
    own = found(model, sources())
    assert sizes and "operation not permitted" in RECORDINGS.why_not(model)
    del sizes[:]
    again = found(model, sources())
    assert not sizes
    fixed(False)
    plain = found(model, sources())
    the_same(own, plain)
    the_same(again, plain)


@pytest.mark.skipif(GPU, reason="stands in for a GPU")
def test_a_size_is_recorded_after_two_real_steps_and_then_replayed(fixed, sizes, monkeypatch):
    done, init = [], RecordedBeamSteps.__init__

    class Recorded:
        def __init__(self, *which):
            self.which = which

        def wait_stream(self, other):
            pass

        def replay(self):
            done.append(("replayed", *self.which[1:]))
            step(*self.which)

    def start(self, *what):
        init(self, *what)
        self.stream = Recorded()

    step = RecordedBeamSteps.step
    monkeypatch.setattr(RecordedBeamSteps, "step", lambda self,
                        *which: done.append(("real", *which)) or step(self, *which))
    monkeypatch.setattr(RecordedBeamSteps, "__init__", start)
    monkeypatch.setattr(RecordedBeamSteps, "record", lambda self,
                        *which: self.graphs.update({which: Recorded(self, *which)}))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Recorded())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    model = translator("transformer")
    own, again = (found(model, sources()) for _ in range(2))
    for size in set(sizes):
        kinds = [kind for kind, which, _ in done if which == size]
        assert kinds == ["real"] * min(2, len(kinds)) + ["replayed"] * (len(kinds) - 2)
    assert [now for *_, now in done[:8]] == [0, 1] * 4                     # from one copy into the other, and back
    fixed(False)
    plain = found(model, sources())
    the_same(own, plain)
    the_same(again, plain)


@pytest.mark.skipif(not GPU, reason="only a GPU can refuse")
def test_a_step_that_waits_for_the_gpu_is_not_recorded(fixed):
    model = translator("rnn")
    step = model.step

    def waits(tokens, state, lengths=None):
        log_probs, state = step(tokens, state, lengths)
        log_probs.sum().item()
        return log_probs, state

    model.step = waits
    own = found(model, sources())
    assert "cannot be recorded" in RECORDINGS.why_not(model)
    fixed(False)
    the_same(own, found(model, sources()))


@pytest.mark.skipif(not GPU, reason="about the kernels of a GPU")
@pytest.mark.parametrize("name", TRANSLATE)
def test_in_single_precision_by_the_kernels_of_a_gpu(name, fixed, sizes):
    model = TRANSLATE[name].example(torch.float32).to("cuda")
    lengths, limits = LENGTHS * 4, LIMITS * 4
    own = [found(model, sources(lengths), limits) for _ in range(3)][-1]
    assert len(set(sizes)) > 2
    fixed(False)
    the_same(own, found(model, sources(lengths), limits), abs=1e-4)


# ----------------------------------------------------------------------------------------------- planted bugs


def forgets_to_order(monkeypatch):
    send = RecordedRows.send
    monkeypatch.setattr(RecordedRows, "send", lambda self, stay, parents, *what: send(
        self, stay, parents if self.beams == 1 else parents * 0 + np.arange(parents.shape[1]), *what))


def forgets_what_it_read(monkeypatch):
    monkeypatch.setattr(recorded_beam, "keep_in_place", lambda own, after: None)


def leaves_the_sources_where_they_were(monkeypatch):
    monkeypatch.setattr(RecordedBeamSteps, "choose", lambda self, sources: None)


def takes_other_sources(monkeypatch):
    choose = RecordedBeamSteps.choose
    monkeypatch.setattr(RecordedBeamSteps, "choose", lambda self, sources: choose(self, np.arange(len(sources))))


def hears_the_wrong_sources(monkeypatch):
    monkeypatch.setattr(RecordedRows, "hear", lambda self: self.steps.hear(self.size)[:, :len(self.slots)])


def does_not_change_copies(monkeypatch):
    send = RecordedRows.send

    def stays(self, *what):
        send(self, *what)
        self.now = 0

    monkeypatch.setattr(RecordedRows, "send", stays)


def forgets_what_is_banned(monkeypatch):
    original = RecordedBeamSteps.__init__
    monkeypatch.setattr(RecordedBeamSteps, "__init__", lambda self, *a: original(self, *a[:4], (), a[5]))


@pytest.mark.parametrize("bug", [
    forgets_to_order, forgets_what_it_read, leaves_the_sources_where_they_were, takes_other_sources,
    hears_the_wrong_sources, does_not_change_copies, forgets_what_is_banned])
def test_a_bug_is_caught(bug, fixed, sizes, monkeypatch):
    model = translator("rnn-attention")
    fixed(False)
    plain = found(model, sources(), end=8)
    fixed(True)
    bug(monkeypatch)
    own = found(model, sources(), end=8)
    assert sizes
    with pytest.raises(AssertionError):
        the_same(own, plain)


@pytest.mark.skipif(GPU, reason="beyond the room of a cache, a GPU stops for good")
def test_rows_that_are_done_must_not_go_on_with_what_lies_there(fixed, monkeypatch):
    """They would outgrow their room, and write beyond it."""
    ask = RecordedBeamSteps.launch

    def stale(self, size, now):
        outbox = self.outbox[:3 * size * self.k].view(3, size, self.k).numpy()
        outbox[0, 3:] = np.arange(3 * self.k, size * self.k).reshape(-1, self.k)
        ask(self, size, now)

    monkeypatch.setattr(recorded_beam, "LEAST", 12)                        # so that the three stay in their places
    model = TRANSLATE["prefix"].example(torch.float64)
    found(model, sources(), [32] * 11, end=9)
    monkeypatch.setattr(RecordedBeamSteps, "launch", stale)
    with pytest.raises((IndexError, RuntimeError)):
        found(model, sources([9, 2, 4]), [30, 31, 32], end=9)


def test_only_sources_that_finish_something_cost_a_turn(fixed, monkeypatch):
    fixed(False)
    turns, keep = [], BeamState.keep
    monkeypatch.setattr(BeamState, "keep", lambda self, *what, **more: turns.append(1) or keep(self, *what, **more))
    own = found(translator("rnn"), sources(), options=BeamOptions(width=3, n_best=3))
    assert len(turns) == sum(map(len, own))
