"""Prompt look-up on the device writes what plain generation writes. Without a GPU nothing is recorded, but done."""

import itertools
import random

import pytest
import torch
from torch import nn

from regard.decoding.fast import on_device, passes, recorded
from regard.decoding.fast.drafts import NGramDraft, PromptLookup, from_ngram, look_up, looked_up
from regard.decoding.fast.guessing import AHEAD, Acceptance
from regard.decoding.fast.on_device import LookUpReader, LookUps, Pace, leading
from regard.decoding.fast.speculative import WAITS, speculative_tokens
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens
from regard.families import FAMILIES, randomised
from regard.families.transformer import TransformerSettings, build_transformer
from regard.layers.cache import KeyValueCache

GPU = torch.cuda.is_available()
END, BANNED = 2, (0, 1, 3)
PROMPTS = [[1, 4, 5, 6, 4, 5, 6, 4, 5], [1], [1, 6, 7, 8, 6, 7, 3, 6, 7], [1, 5]]
GREEDY, DRAWN = Sampling(temperature=0), Sampling(0.4, seed=3)
HOWS = [GREEDY, DRAWN, Sampling(0.8, top_k=4, seed=5), Sampling(0.9, top_p=0.8, seed=4)]
KINDS = {
    "rotary": {}, "learned": dict(positions="learned"), "alibi": dict(positions="alibi"),
    "sinusoidal": dict(positions="sinusoidal"), "window": dict(positions="learned", window=64),
    "grouped": dict(heads=4, kv_heads=2), "post": dict(placement="post", norm="rms", softcap=4.0)}


def transformer(dtype=torch.float64, **settings):
    torch.manual_seed(0)
    settings = dict(layers=2, width=16, heads=2, context=64) | settings
    model = randomised(build_transformer(TransformerSettings(**settings), 11)).to(dtype).eval()
    return model.to("cuda") if GPU else model


@pytest.fixture
def both(monkeypatch):
    """Steps of plain generation and of look-ups on the device, and what became of the guesses."""

    def write(model, prompts=PROMPTS, ahead=AHEAD, timed=False, refused=False, **options):
        options = {"new_tokens": 30, "end": END, "banned": BANNED} | options
        tally, told = Acceptance(), []
        with monkeypatch.context() as patch:
            patch.setattr(recorded, "fits", lambda model, new_tokens: False)
            plain = list(generate_tokens(model, prompts, **options))
        with monkeypatch.context() as patch:
            patch.setattr(recorded, "fits", lambda model, new_tokens: isinstance(model, nn.Module))
            if not timed:
                times = itertools.cycle((on_device.WORTH, 1.0))            # of a pass and of a step
                patch.setattr(on_device, "taken", lambda way: next(times))
            if not GPU:
                patch.setattr(LookUps, "record", lambda self: None)
                patch.setattr(passes.Passes, "record", lambda self: None)
            quick = list(speculative_tokens(
                model, prompts, drafts=PromptLookup, ahead=ahead, tally=tally, **{"notice": told.append} | options))
        assert refused or not any("without drafts" in line for line in told), told
        assert tally.tokens == sum(token is not None for step in quick for token in step)
        assert tally.accepted <= tally.proposed
        return plain, quick, tally

    return write


@pytest.fixture
def taken(monkeypatch):
    """Which ways were asked for, in order: passes with guesses (True) and steps."""
    ways = []
    real = LookUps.ask
    monkeypatch.setattr(LookUps, "ask", lambda self, guessing, count: ways.extend([guessing] * count) or real(
        self, guessing, count))
    return ways


@pytest.fixture
def restless(monkeypatch):
    """Rests are short, so that short texts have many, and passes and steps take turns."""
    for name, value in dict(TRIAL=2, SHORTEST_REST=3, LONGEST_REST=6).items():
        monkeypatch.setattr(on_device, name, value)


@pytest.fixture
def careless(monkeypatch):
    """Passes and steps as it happens, and more of them than are needed."""
    chance = random.Random(5)
    monkeypatch.setattr(Pace, "next", lambda self, lacking: (chance.random() < 0.5, chance.randint(1, 7)))


# ------------------------------------------------------------------------------------------------ the look-up


def texts_of_few_words(seed, rows=12, time=40):
    """Texts with many repetitions, of unequal lengths, and anything behind their ends."""
    chance = random.Random(seed)
    words = [[chance.randrange(4, 4 + chance.choice((1, 2, 3, 5))) for _ in range(time)] for _ in range(rows)]
    return words, [time, *(chance.choice((1, 2, 3, time, chance.randint(1, time))) for _ in range(rows - 1))]


def found(text, lengths, most):
    guesses, many = look_up(torch.tensor(text), torch.tensor(lengths), most)
    return [row[:count] for row, count in zip(guesses.tolist(), many.tolist(), strict=True)]


@pytest.mark.parametrize("most", [1, 2, 8])
def test_a_look_up_of_all_places_at_once_finds_what_trying_each_finds(most):
    for seed in range(40):
        text, lengths = texts_of_few_words(seed)
        wanted = [looked_up(row[:length], most) for row, length in zip(text, lengths, strict=True)]
        assert found(text, lengths, most) == wanted and any(wanted)


def test_a_look_up_that_forgets_where_rows_end_is_caught():
    wrong = 0
    for seed in range(10):
        text, lengths = texts_of_few_words(seed)
        wanted = [looked_up(row[:length], 3) for row, length in zip(text, lengths, strict=True)]
        wrong += found(text, [len(row) for row in text], 3) != wanted
    assert wrong == 10


def test_a_look_up_asks_the_device_nothing():
    """A tensor without numbers has nothing to say to a host that would ask."""
    text, lengths = torch.zeros(3, 20, dtype=torch.long, device="meta"), torch.ones(3, dtype=torch.long, device="meta")
    guesses, many = look_up(text, lengths, 8)
    assert guesses.shape == (3, 8) and many.shape == (3,) and leading(guesses == 0).shape == (3,)


def test_how_many_stand_before_the_first_that_is_not_true():
    true = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]]).bool()
    assert leading(true).tolist() == [2, 0, 4]


# ------------------------------------------------------------------------------------ the law: it changes nothing


@pytest.mark.parametrize("how", [GREEDY, DRAWN], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_are_those_of_plain_generation(kind, how, both, taken, restless):
    plain, quick, _ = both(transformer(**KINDS[kind]), how=how)
    assert quick == plain and {*taken} == {True, False}


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_the_same_however_tokens_are_chosen_of_one_row_and_of_rows_that_end(how, both, taken, restless):
    model, ended = transformer(), 0
    for rows, end in ((1, None), (1, END), (4, END)):
        plain, quick, _ = both(model, PROMPTS[:rows], how=how, end=end)
        assert quick == plain
        ended += None in plain[-1]
    assert {*taken} == {True, False}
    assert ended or how == GREEDY


def test_guesses_stand_and_there_are_wrong_ones(both):
    for how in HOWS[:2]:
        _, _, tally = both(transformer(), how=how, end=None)
        assert 0 < tally.accepted < tally.proposed and tally.passes < tally.tokens


@pytest.mark.parametrize("end", [None, 5])
@pytest.mark.parametrize("context", [2, 3, 8, 16])
def test_the_same_past_the_context_of_a_model(context, end, both, taken, restless):
    model = transformer(context=context, positions="learned")
    for rows, how in ((1, DRAWN), (4, GREEDY), (4, Sampling(seed=2))):
        notices = []
        plain, quick, _ = both(model, PROMPTS[:rows], how=how, end=end, new_tokens=24, notice=notices.append)
        assert quick == plain
        assert len(notices) in (0, 2) and notices[:1] == notices[1:]       # each says once what had to be cut
        assert notices or end is not None
    assert taken


@pytest.mark.parametrize("end", [None, 5])
@pytest.mark.parametrize("context", [8, 64])
def test_the_same_whatever_is_asked_for_and_however_much(context, end, both, careless):
    model = transformer(context=context, positions="learned")
    for how in (GREEDY, Sampling(0.7, seed=1)):
        plain, quick, _ = both(model, how=how, end=end)
        assert quick == plain


def test_the_same_with_any_number_of_guesses_rows_and_tokens(both, taken):
    model = transformer()
    for ahead in (1, 3, 16):
        for new_tokens in (1, 2, 20):
            for prompts in ([[4, 5]], [[7, 8] * 10, *PROMPTS]):
                plain, quick, _ = both(model, prompts, ahead=ahead, new_tokens=new_tokens, how=Sampling(0.5, seed=2))
                assert quick == plain
    assert taken


def test_the_same_for_rows_of_other_numbers_and_from_one_text_to_the_next(both, taken):
    model = transformer()
    first, quick, _ = both(model, how=DRAWN, row_ids=[5, 0, 9, 2])
    assert quick == first
    for seed in range(4):                                                  # by the recording that was kept
        plain, quick, _ = both(model, [*reversed(PROMPTS)], how=Sampling(0.4, seed=seed))
        assert quick == plain != first
    assert taken


def test_two_texts_at_once_do_not_share_a_state(both, monkeypatch):
    model = transformer()
    alone = [both(model, [prompt], end=None)[0] for prompt in (PROMPTS[0], PROMPTS[2])]
    monkeypatch.setattr(recorded, "fits", lambda model, new_tokens: True)
    if not GPU:
        monkeypatch.setattr(LookUps, "record", lambda self: None)
    each = [speculative_tokens(model, [prompt], drafts=PromptLookup, new_tokens=30, banned=BANNED)
            for prompt in (PROMPTS[0], PROMPTS[2])]
    mixed = list(zip(*each, strict=True))
    assert [list(steps) for steps in zip(*mixed, strict=True)] == alone


@pytest.mark.skipif(not GPU, reason="records CUDA graphs")
@pytest.mark.parametrize("kind", ["rotary", "alibi", "grouped"])
def test_in_single_precision_where_steps_have_kernels_of_their_own(kind, both, taken, restless):
    model = transformer(torch.float32, **KINDS[kind])
    for how in HOWS[:3]:
        plain, quick, _ = both(model, how=how, end=None, new_tokens=50, timed=True)
        assert quick == plain
    assert {*taken} == {True, False}
    kept = passes._kept[model][LookUps][1]
    assert 0.5 < kept.worth < 20 and kept.worth != on_device.WORTH          # it was measured


# ------------------------------------------------------------------------------------------ bugs that must be caught


def caught(both, how=DRAWN, **options):
    model = transformer()                                                  # a new one: nothing is kept of it
    plain, quick, _ = both(model, how=how, end=None, **options)
    return quick != plain


def test_a_state_that_is_not_cut_is_caught(both, monkeypatch):
    assert not caught(both)
    monkeypatch.setattr(KeyValueCache, "cut", lambda self, tokens: self)
    assert caught(both)


def test_noise_of_another_position_is_caught(both, monkeypatch):
    real = on_device.chosen_from
    monkeypatch.setattr(on_device, "chosen_from", lambda log_probs, how, banned, noise, first: real(
        log_probs, how, banned, noise, first - 1))
    assert caught(both)


def test_a_text_that_single_steps_leave_as_it_is_is_caught(both, monkeypatch, restless):
    assert not caught(both)
    real = LookUps._write

    def forgets(self, chosen, count, many):
        before = self.text.clone()
        real(self, chosen, count, many)
        if chosen.shape[1] == 1:
            self.text.copy_(before)

    monkeypatch.setattr(LookUps, "_write", forgets)
    assert caught(both)


@pytest.mark.skipif(GPU, reason="a GPU is of no use any more after this")
def test_rows_that_read_past_their_room_are_caught(both, monkeypatch, careless):
    """A device that takes each row for one token shorter."""
    real = LookUps.go_on
    monkeypatch.setattr(LookUps, "go_on", lambda self, state, ids, texts, more, end: real(
        self, state, ids, texts, [count + (count > 0) for count in more], end))
    with pytest.raises(IndexError, match="out of bounds"):
        both(transformer(context=8, positions="learned"), how=DRAWN, end=None)


# -------------------------------------------------------------------------------------------------- the tally


def tallied(prompt, written, wanted, ended, ahead):
    """What becomes of guesses in every pass of one row, from the text alone: proposed, accepted, passes."""
    answer = written + [END] * ended
    proposed = accepted = passes = 0
    done = 1
    while done < len(answer):
        text = prompt + written[:done]
        guess = looked_up(text, min(ahead, wanted - done - 1))
        guess = guess[:next((at for at, token in enumerate(guess) if token in BANNED), len(guess))]
        right = 0
        while right < len(guess) and done + right < len(answer) and guess[right] == answer[done + right]:
            right += 1
        proposed, accepted, passes = proposed + len(guess), accepted + right, passes + 1
        done += right + 1
    return proposed, accepted, passes


@pytest.mark.parametrize("end", [None, END])
@pytest.mark.parametrize("rows", [1, 4])
def test_what_became_of_the_guesses_is_told(rows, end, both, monkeypatch):
    monkeypatch.setattr(Pace, "next", lambda self, lacking: (True, 3))
    proposed = 0
    for how in HOWS:
        plain, quick, tally = both(transformer(), PROMPTS[:rows], ahead=4, how=how, end=end)
        assert quick == plain
        columns = [[token for token in column if token is not None] for column in zip(*plain, strict=True)]
        each = [tallied(prompt, written, 30, len(written) < 30, 4)
                for prompt, written in zip(PROMPTS[:rows], columns, strict=True)]
        assert tally == Acceptance(proposed=sum(one[0] for one in each), accepted=sum(one[1] for one in each),
                                   passes=1 + max(one[2] for one in each), tokens=sum(map(len, columns)))
        proposed += tally.proposed
    assert proposed


def test_steps_are_passes_of_one_token_without_a_guess(both, monkeypatch):
    monkeypatch.setattr(Pace, "next", lambda self, lacking: (False, 5))
    plain, quick, tally = both(transformer(), PROMPTS[:1], end=None)
    assert quick == plain and tally == Acceptance(0, 0, passes=30, tokens=30)


# -------------------------------------------------------------------------------- when to guess, and how much to ask


def test_where_guesses_do_not_stand_rests_get_longer_and_longer(monkeypatch):
    pace, ways = Pace(worth=1.5), []
    for _ in range(120):
        guessing, count = pace.next(10_000)
        ways.append((guessing, count))
        if guessing:
            pace.next(10_000)                                              # asked for before it is known: steps
            pace.judge(tokens=count, passes=count)
    steps = [0]
    for guessing, count in ways:
        if guessing:
            steps.append(0)
        else:
            steps[-1] += count
    assert [count for guessing, count in ways if guessing][:3] == [on_device.TRIAL] * 3
    assert steps[1:6] == [32, 64, 128, 256, 512] and max(steps) == on_device.LONGEST_REST


def test_where_guesses_stand_more_is_asked_for_at_once_and_no_rest_is_left():
    pace = Pace(worth=1.5)
    assert pace.next(1000) == (True, on_device.TRIAL)
    assert pace.next(1000) == (False, on_device.TRIAL)                     # until it is known
    pace.judge(tokens=16, passes=4)
    assert [pace.next(1000) for _ in range(3)] == [(True, 8), (True, 16), (True, 16)]
    assert pace.next(9) == (True, 3)                                       # of 4 tokens each
    pace.judge(tokens=16, passes=16)
    assert pace.next(1000) == (False, 16) and pace.next(1000) == (False, 16)
    assert pace.next(1000) == (True, on_device.TRIAL)


def test_guesses_that_tell_nothing_leave_everything_as_it_was():
    pace = Pace(worth=1.5)
    pace.next(1000)
    pace.judge(tokens=0, passes=0)                                         # nobody read: all rows were full
    assert pace.next(1000) == (True, on_device.TRIAL)


def test_no_more_is_asked_for_than_is_needed_by_much(both, taken):
    _, _, tally = both(transformer(), PROMPTS[:1], how=GREEDY, end=None, new_tokens=48)
    assert tally.passes - 1 <= len(taken) <= tally.passes + 8


def test_a_text_of_few_repetitions_is_written_in_single_steps(both, taken):
    _, _, tally = both(transformer(context=256), PROMPTS[:1], how=Sampling(2.0, seed=1), end=None, new_tokens=200)
    assert taken.count(True) <= 4 * on_device.TRIAL and tally.passes > 150


# --------------------------------------------------------------------------------------------- when it is taken


def test_other_drafts_and_states_that_cannot_be_cut_go_another_way(both, taken, monkeypatch):
    for name in ("gru", "hybrid"):
        model = FAMILIES[name].example(torch.float64)
        plain, quick, _ = both(model.to("cuda") if GPU else model, refused=True)       # cuDNN asks the host for lengths
        assert quick == plain
    narrow = transformer(window=3, positions="learned")                    # its cache forgets what is farther away
    plain, quick, _ = both(narrow)
    assert quick == plain
    plain, quick, _ = both(transformer(context=1, positions="learned"))    # no room for a guess
    assert quick == plain and not taken
    monkeypatch.setattr(recorded, "fits", lambda model, new_tokens: True)
    monkeypatch.setattr(recorded, "take", lambda *_: (None, ""))
    if not GPU:
        monkeypatch.setattr(passes.Passes, "record", lambda self: None)
    asked = []
    real = NGramDraft.propose
    monkeypatch.setattr(NGramDraft, "propose", lambda self, most: asked.append(most) or real(self, most))
    told = []
    list(speculative_tokens(transformer(), PROMPTS, drafts=from_ngram(None, 11), new_tokens=20, notice=told.append))
    assert asked and not taken and told == [WAITS]


def test_a_recording_serves_again_but_for_other_sizes_or_weights(both, monkeypatch):
    made = []
    real = LookUps.__init__
    monkeypatch.setattr(LookUps, "__init__", lambda self, *each: made.append(1) or real(self, *each))
    model = transformer()
    for seed in (1, 2):
        both(model, how=Sampling(seed=seed))
    assert len(made) == 1
    both(model, how=Sampling(0.5))
    both(model, how=Sampling(0.5), new_tokens=300)                         # a longer text
    both(model, PROMPTS[:2], how=Sampling(0.5))
    assert len(made) == 4
    for weight in model.parameters():
        weight.data = weight.data.clone()
    both(model, PROMPTS[:2], how=Sampling(0.5))
    assert len(made) == 5


def test_where_it_cannot_be_recorded_there_are_no_drafts_which_is_said(monkeypatch):
    def refuse(self):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(recorded, "fits", lambda model, new_tokens: True)
    monkeypatch.setattr(recorded, "take", lambda *_: (None, ""))
    monkeypatch.setattr(LookUps, "record", refuse)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    model, tally, notices = transformer(), Acceptance(), []
    quick = list(speculative_tokens(model, PROMPTS, drafts=PromptLookup, new_tokens=20, tally=tally,
                                    notice=notices.append))
    assert quick == list(generate_tokens(model, PROMPTS, new_tokens=20))
    assert tally == Acceptance(passes=len(quick), tokens=sum(token is not None for step in quick for token in step))
    assert notices == ["written without drafts: a pass over several tokens cannot be recorded as a CUDA graph "
                       "(operation not permitted when stream is capturing)"]


def test_every_row_has_a_number():
    with pytest.raises(ValueError, match="zip"):
        LookUpReader(transformer(), PROMPTS, [1, 2], 4, None, AHEAD, Acceptance())
