import itertools
import math
import random

import pytest
import torch

from regard.contract import State
from regard.decoding.fast.drafts import Acceptance, Drafter, PromptLookup, Speculation, from_ngram, why_no_drafts
from regard.decoding.fast.speculative import SpeculativeReader, SpeculativeRow, speculative_tokens
from regard.decoding.sampling import Sampling, cut_distribution
from regard.decoding.stream import generate_tokens
from regard.errors import SettingError
from regard.families import FAMILIES, randomised
from regard.families.caption import CAPTION
from regard.families.transformer import TransformerSettings, build_transformer
from regard.families.translate import TRANSLATE
from regard.layers.cache import KeyValueCache

END, BANNED = 2, (0, 1, 3)
PROMPTS = [[1, 4, 5], [1], [1, 6, 7, 8, 6, 7], [1, 5]]
HOWS = [Sampling(temperature=0), Sampling(seed=3), Sampling(0.8, top_k=4, top_p=0.9, seed=5)]
NEURAL = [name for name in FAMILIES if name != "ngram"]


class Told(Drafter):
    """Knows how the text goes on, and gets each guess wrong with probability `wrong`."""

    def __init__(self, answer, prompt, wrong=0.0):
        self.answer, self.at, self.first, self.wrong = answer, 0, len(prompt), wrong

    def extend(self, tokens):
        assert self.answer[self.at:self.at + len(tokens)] == list(tokens)
        self.at += len(tokens)

    def propose(self, most):
        places = range(self.at, min(self.at + most, len(self.answer)))
        return [4 + (self.answer[at] + 1) % 7 if random.Random(1000 * self.first + at).random() < self.wrong
                else self.answer[at] for at in places]


def in_rows(steps):
    return [[token for token in row if token is not None] for row in zip(*steps, strict=True)]


def told(plain, prompts, wrong):
    """Drafts for these prompts, which must be distinct, that know what plain generation gave, end included."""
    answers = {tuple(prompt): [*text, END] for prompt, text in zip(prompts, in_rows(plain), strict=True)}
    return lambda prompt: Told(answers[tuple(prompt)], prompt, wrong)


def both(model, prompts, drafts=None, wrong=0.3, ahead=4, **options):
    """Steps of plain and of speculative generation, and what became of the guesses."""
    options = {"new_tokens": 14, "end": END, "banned": BANNED} | options
    plain, tally = list(generate_tokens(model, prompts, **options)), Acceptance()
    drafts = drafts or told(plain, prompts, wrong)
    return plain, list(speculative_tokens(model, prompts, drafts=drafts, ahead=ahead, tally=tally, **options)), tally


def bounded_window(context, window):
    torch.manual_seed(0)
    settings = TransformerSettings(layers=2, width=8, heads=2, context=context, window=window, positions="learned")
    return randomised(build_transformer(settings, 11)).double().eval()


# ------------------------------------------------------------------------------------ the law: it changes nothing


CASES = [                                    # rows, the end, the draft
    (1, None, dict(wrong=0.3)), (4, None, dict(wrong=0.5)), (4, END, dict(wrong=0.3)),
    (4, END, dict(drafts=PromptLookup)), (1, None, dict(drafts=from_ngram(None, 11)))]


@pytest.mark.parametrize("family", NEURAL)
@pytest.mark.parametrize("sampling", HOWS, ids=str)
def test_the_tokens_are_those_of_plain_generation_whatever_is_guessed(family, sampling):
    model = FAMILIES[family].example(torch.float64)
    for rows, end, options in CASES:
        plain, quick, tally = both(model, PROMPTS[:rows], sampling=sampling, end=end, **options)
        assert quick == plain
        assert tally.tokens == sum(map(len, in_rows(plain)))
        assert end is not None or "wrong" not in options or 0 < tally.accepted < tally.proposed


@pytest.mark.parametrize("table, family", [(TRANSLATE, name) for name in TRANSLATE] + [(CAPTION, n) for n in CAPTION])
@pytest.mark.parametrize("sampling", HOWS, ids=str)
def test_the_same_of_models_that_read_a_source(table, family, sampling):
    model, source = table[family].example(torch.float64), table[family].example_source()
    prompts = [[1, 4], [1, 5, 6]][:len(source.items)]
    assert len(prompts) == len(source.items)
    plain, quick, tally = both(model, prompts, sampling=sampling, source=source, end=None, new_tokens=12)
    assert quick == plain and tally.accepted and tally.accepted < tally.proposed


@pytest.mark.parametrize("context", [1, 2, 3, 8])
@pytest.mark.parametrize("window", [0, 2])
def test_the_same_past_the_context_of_a_model(context, window):
    model = bounded_window(context, window)
    for rows in (1, 4):
        notices = []
        plain, quick, tally = both(model, PROMPTS[:rows], sampling=Sampling(seed=3), end=None, new_tokens=20,
                                   notice=notices.append)
        assert quick == plain
        assert len(notices) == 2 and notices[0] == notices[1]              # each says once what had to be cut
        assert tally.accepted or context < 3


def test_the_same_with_any_number_of_guesses():
    model = FAMILIES["hybrid"].example(torch.float64)
    for ahead in (1, 2, 3, 16):
        plain, quick, _ = both(model, PROMPTS, wrong=0.2, ahead=ahead, sampling=Sampling(seed=2))
        assert quick == plain


def test_the_same_for_rows_of_other_numbers():
    model, sampling = FAMILIES["lstm"].example(torch.float64), Sampling(seed=1)
    plain, quick, _ = both(model, PROMPTS, sampling=sampling, row_ids=[5, 0, 9, 2])
    assert quick == plain and plain != list(generate_tokens(model, PROMPTS, new_tokens=14, sampling=sampling, end=END,
                                                            banned=BANNED))


# ------------------------------------------------------------------------------------------ bugs that must be caught


def caught(model, **options):
    """Whether a bug shows: another text, or a draft that is told of one."""
    try:
        plain, quick, _ = both(model, PROMPTS, sampling=Sampling(seed=3), end=None, **options)
    except AssertionError:
        return True
    return quick != plain


def test_a_cache_that_is_not_set_back_is_caught(monkeypatch):
    model = FAMILIES["transformer"].example(torch.float64)
    assert not caught(model)
    monkeypatch.setattr(KeyValueCache, "cut", lambda self, tokens: self)
    assert caught(model)


def test_a_state_that_is_not_kept_is_caught(monkeypatch):
    model = FAMILIES["gru"].example(torch.float64)
    assert not caught(model)
    real = SpeculativeReader._go_back
    monkeypatch.setattr(SpeculativeReader, "_go_back", lambda self, before, *rest: real(
        self, None if before is None else self.state, *rest))
    assert caught(model)


def test_noise_of_another_position_is_caught(monkeypatch):
    model = FAMILIES["transformer"].example(torch.float64)
    real = SpeculativeReader._whose

    def same_for_all(self, width):
        numbers, positions = real(self, width)
        return numbers, positions[:, :1].expand(-1, width)

    monkeypatch.setattr(SpeculativeReader, "_whose", same_for_all)
    assert caught(model)


# ----------------------------------------------------------------------------------- the distribution, by counting

PROMPT, LENGTH, ROWS = (1, 4, 5), 3, 4000
HOW = Sampling(0.4, top_p=0.97, seed=11)


@pytest.fixture(scope="module")
def peaked():
    """A Transformer that knows what it wants, but not for sure: guesses are sometimes right."""
    torch.manual_seed(0)
    model = build_transformer(TransformerSettings(layers=1, width=8, heads=2, context=16), 9)
    return randomised(model).double().eval()


class Exact:
    """The distribution of the next token, worked out from the model alone."""

    def __init__(self, model, sampling):
        self.model, self.sampling, self.known = model, sampling, {}

    @torch.no_grad()
    def after(self, text):
        if text not in self.known:
            log_probs, _ = self.model.step(torch.tensor([text]), self.model.start(1, len(text)))
            log_probs[:, [*BANNED, END]] = -torch.inf
            weights, tokens = cut_distribution(log_probs, self.sampling)
            self.known[text] = torch.zeros(9, dtype=torch.float64).index_put((tokens[0],), weights[0])
        return self.known[text]

    def of(self, text):
        """The probability of these tokens after the prompt."""
        return math.prod(float(self.after(PROMPT + text[:at])[token]) for at, token in enumerate(text))


def deviations(texts, exact):
    """(chi-squared - cells) / sqrt(2 cells): about normal where the texts are drawn from the exact distribution."""
    counts = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    every = [text for text in itertools.product(range(9), repeat=LENGTH) if exact.of(text) > 0]
    assert set(counts) <= set(every), "a text that has no probability was written"
    expected = {text: ROWS * exact.of(text) for text in every}
    cells = [(counts.get(text, 0), value) for text, value in expected.items() if value >= 5]
    rare = ROWS - sum(value for _, value in cells)
    if rare >= 5:
        cells.append((ROWS - sum(count for count, _ in cells), rare))
    chi = sum((count - value) ** 2 / value for count, value in cells)
    return (chi - len(cells) + 1) / math.sqrt(2 * (len(cells) - 1))


class Counting(Drafter):
    """Guesses that the tokens 4 to 8 follow each other in turn."""

    def __init__(self, prompt):
        self.last = prompt[-1]

    def extend(self, tokens):
        self.last = tokens[-1]

    def propose(self, most):
        return [4 + (self.last - 3 + at) % 5 for at in range(most)]


def drawn(model):
    tally = Acceptance()
    steps = speculative_tokens(model, [PROMPT] * ROWS, drafts=Counting, ahead=2, new_tokens=LENGTH, sampling=HOW,
                               banned=(*BANNED, END), tally=tally)
    return list(zip(*steps, strict=True)), tally


def with_rule(monkeypatch, exact, rule):
    """Accept guesses by a rule with a coin of its own, in the place of ours: (the guess, p, p unchanged, coins)."""
    real, coins = SpeculativeReader._write, torch.Generator().manual_seed(5)
    unchanged = Exact(exact.model, Sampling(1.0))

    def write(self, index, row, token, guess=None):
        if guess is not None:
            text = tuple(self.texts[index])
            token = rule(guess, exact.after(text), unchanged.after(text), token, coins)
        return real(self, index, row, token, guess)

    monkeypatch.setattr(SpeculativeReader, "_write", write)


def residual(guess, p, coins):
    rest = p.clone()
    rest[guess] = 0
    return int(rest.multinomial(1, generator=coins)) if rest.sum() > 0 else guess


def test_texts_come_as_often_as_they_should(peaked):
    texts, tally = drawn(peaked)
    assert abs(deviations(texts, Exact(peaked, HOW))) < 3
    assert 0.1 < tally.rate < 0.9                                          # there were right guesses and wrong ones


def test_the_classical_rule_of_acceptance_agrees(peaked, monkeypatch):
    """Accept a guess with its probability, else draw from what is left: another way to the same distribution."""
    exact = Exact(peaked, HOW)
    with_rule(monkeypatch, exact, lambda guess, p, unchanged, chosen, coins: (
        guess if torch.rand(1, generator=coins) < p[guess] else residual(guess, p, coins)))
    assert abs(deviations(drawn(peaked)[0], exact)) < 3


def test_a_correction_drawn_from_everything_is_caught(peaked, monkeypatch):
    exact = Exact(peaked, HOW)
    with_rule(monkeypatch, exact, lambda guess, p, unchanged, chosen, coins: (
        guess if torch.rand(1, generator=coins) < p[guess] else chosen))
    assert deviations(drawn(peaked)[0], exact) > 10


def test_accepting_with_the_unchanged_probability_is_caught(peaked, monkeypatch):
    exact = Exact(peaked, HOW)
    with_rule(monkeypatch, exact, lambda guess, p, unchanged, chosen, coins: (
        guess if torch.rand(1, generator=coins) < unchanged[guess] and p[guess] > 0 else residual(guess, p, coins)))
    assert deviations(drawn(peaked)[0], exact) > 10


# -------------------------------------------------------------------------------------------- what it spares


@pytest.mark.parametrize("family", NEURAL)
def test_right_guesses_spare_passes(family):
    model = FAMILIES[family].example(torch.float64)
    _, _, tally = both(model, [PROMPTS[0]], wrong=0.0, ahead=4, new_tokens=26, end=None)
    # The first token follows the prompt; then 5 a pass.
    assert (tally.tokens, tally.passes, tally.proposed, tally.accepted) == (26, 6, 20, 20)
    assert tally.rate == 1 and tally.passes_per_token == 6 / 26


@pytest.mark.parametrize("family", NEURAL)
def test_wrong_guesses_cost_no_pass(family):
    model = FAMILIES[family].example(torch.float64)
    _, _, tally = both(model, [PROMPTS[0]], wrong=1.0, ahead=4, new_tokens=20, end=None)
    assert (tally.tokens, tally.passes, tally.accepted) == (20, 20, 0) and tally.proposed


def test_drafts_that_are_wrong_are_asked_for_less_and_less_often():
    row = SpeculativeRow(0, 99, Told([4] * 99, []), 8)
    assert row.guess(99) == [4] * 8
    asked = []
    for _ in range(60):
        guess = row.guess(99)
        asked.append(len(guess))
        row.learn(len(guess), 0)
    assert asked[:8] == [8, 0, 4, 0, 0, 0, 2, 0] and asked.count(0) > 50
    row.rest = 0
    row.learn(1, 1)
    assert row.guess(99) == [4] * 8


def test_a_state_that_can_be_cut_is_never_copied(monkeypatch):
    monkeypatch.setattr(State, "keep", lambda self: pytest.fail("kept"))
    plain, quick, _ = both(FAMILIES["transformer"].example(torch.float64), PROMPTS)
    assert quick == plain


# ----------------------------------------------------------------------------------------------- edges and mistakes


def test_no_new_tokens_are_no_tokens_and_fewer_are_refused():
    model = FAMILIES["transformer"].example(torch.float64)
    assert list(speculative_tokens(model, [[1]], drafts=PromptLookup, new_tokens=0)) == []
    with pytest.raises(SettingError, match=r"^--tokens -1: must be 0 or more$"):
        list(speculative_tokens(model, [[1]], drafts=PromptLookup, new_tokens=-1))


def test_tokens_that_may_not_be_written_are_not_guessed():
    class Stubborn(Drafter):
        def extend(self, tokens):
            pass

        def propose(self, most):
            return [5, 0, 5][:most]

    model = FAMILIES["transformer"].example(torch.float64)
    plain, quick, tally = both(model, [[1, 4]], drafts=lambda prompt: Stubborn(), new_tokens=3, end=None)
    assert quick == plain and tally.proposed == 1                          # of [5, 0] the 5; then there is no room


def test_every_mistake_is_one_line():
    with pytest.raises(SettingError, match=r"^unknown --speculate promt: did you mean prompt\?$"):
        Speculation("promt")
    with pytest.raises(SettingError, match=r"^--draft-tokens 0: must be at least 1$"):
        Speculation("prompt", 0)
    ngram = FAMILIES["ngram"].example(torch.float32)
    with pytest.raises(SettingError, match=r"^--speculate prompt asks no model: leave --draft out, or say --speculate"):
        Speculation("prompt", model=ngram)
    assert Speculation("ngram", model=ngram).drafts(11)([1, 4]).propose(1) is not None


def test_it_says_why_a_model_is_left_alone():
    assert why_no_drafts(FAMILIES["ngram"].example(torch.float32)) == (
        "an n-gram looks words up one by one, and has no pass to spare: written without drafts")
    transformer = FAMILIES["transformer"].example(torch.float32)
    assert why_no_drafts(transformer) == ""
    assert why_no_drafts(transformer.to("meta")) == (
        "drafts gain nothing on a GPU, where a pass over several tokens takes as long as the steps that it would save: "
        "written without drafts")


def test_the_tally_in_words():
    tally = Acceptance(proposed=1000, accepted=250, passes=300, tokens=550)
    tally.add(Acceptance(proposed=200, accepted=50, passes=10, tokens=60))
    assert str(tally) == "drafts: 300 of 1,200 guesses stood (25%); 610 tokens in 310 passes"
    assert tally.as_dict() == {"proposed": 1200, "accepted": 300, "rate": 0.25, "passes": 310, "tokens": 610}
    assert Acceptance().rate == 0
