import pytest
import torch

from regard.decoding.sampling import Sampling, choose
from regard.decoding.stream import generate_tokens
from regard.errors import SettingError

PROMPTS = [[1, 4, 5], [1], [1, 6, 7, 8, 9, 10], [1, 5]]
END = 2


def texts(model, prompts, **options):
    """The tokens of each row, as lists."""
    options = {"new_tokens": 12, "end": END, "banned": (0, 1, 3)} | options
    rows = [[] for _ in prompts]
    for step in generate_tokens(model, prompts, **options):
        for row, token in zip(rows, step, strict=True):
            if token is not None:
                row.append(token)
    return rows


def by_rereading(model, prompt, sampling, new_tokens, row=0, banned=(0, 1, 3)):
    """The same text the slow way: everything is read again for every token."""
    text = list(prompt)
    for _ in range(new_tokens):
        log_probs, _ = model.step(torch.tensor([text]), model.start(1, len(text)))
        log_probs[:, list(banned)] = -torch.inf
        token = int(choose(log_probs, sampling, torch.tensor([row]), torch.tensor([len(text)])))
        if token == END:
            break
        text.append(token)
    return text[len(prompt):]


@pytest.mark.parametrize("sampling", [Sampling(temperature=0), Sampling(seed=3), Sampling(0.8, top_k=4, seed=5)],
                         ids=str)
def test_carrying_the_state_gives_the_text_that_rereading_everything_gives(any_model, sampling):
    assert texts(any_model, [PROMPTS[0]], sampling=sampling) == [by_rereading(any_model, PROMPTS[0], sampling, 12)]


@pytest.mark.parametrize("sampling", [Sampling(temperature=0), Sampling(seed=3), Sampling(0.9, top_p=0.9, seed=4)],
                         ids=str)
def test_a_prompt_gives_the_same_text_alone_and_in_any_batch_in_any_order(any_model, sampling):
    alone = [texts(any_model, [prompt], sampling=sampling, row_ids=[row])[0] for row, prompt in enumerate(PROMPTS)]
    assert texts(any_model, PROMPTS, sampling=sampling) == alone
    order = [2, 0, 3, 1]
    shuffled = texts(any_model, [PROMPTS[row] for row in order], sampling=sampling, row_ids=order)
    assert shuffled == [alone[row] for row in order]
    assert sampling.temperature == 0 or len({tuple(text) for text in alone}) > 1


def test_the_same_prompt_in_two_rows_draws_two_texts(any_model):
    a, b = texts(any_model, [[1, 4], [1, 4]], sampling=Sampling(seed=1), end=None, new_tokens=20)
    assert a != b


def test_another_seed_draws_another_text(any_model):
    one, two = (texts(any_model, [[1, 4]], sampling=Sampling(seed=seed), end=None, new_tokens=20) for seed in (0, 1))
    assert one != two


def test_a_text_can_be_taken_up_again_in_the_middle(any_model):
    sampling = Sampling(seed=9)
    [whole] = texts(any_model, [PROMPTS[0]], sampling=sampling, end=None, new_tokens=12)
    [rest] = texts(any_model, [PROMPTS[0] + whole[:5]], sampling=sampling, end=None, new_tokens=7)
    assert whole[5:] == rest


def test_a_row_stops_at_its_end_and_the_others_go_on(any_model):
    steps = list(generate_tokens(any_model, PROMPTS, new_tokens=25, sampling=Sampling(seed=2), end=END,
                                 banned=(0, 1, 3)))
    for row in zip(*steps, strict=True):
        ended = row.index(None) if None in row else len(row)
        assert all(token is None for token in row[ended:])
        assert END not in row
    assert len(steps) == 25 or all(token is None for token in steps[-1])


def test_a_row_writes_no_more_than_its_own_limit(any_model, counted):
    limits, options = [2, 7, 4, 1], dict(sampling=Sampling(seed=3), end=None)
    whole = texts(any_model, PROMPTS, new_tokens=7, **options)
    model = counted(any_model)
    assert texts(model, PROMPTS, new_tokens=7, limits=limits, **options) == [
        text[:most] for text, most in zip(whole, limits, strict=True)]
    assert sum(model.reads) == sum(map(len, PROMPTS)) + sum(most - 1 for most in limits)   # the last is not read
    assert texts(any_model, PROMPTS, new_tokens=7, limits=[1, 1, 1, 1], **options) == [text[:1] for text in whole]


def test_generation_is_over_when_every_row_has_ended(any_model, counted):
    model = counted(any_model)
    everything_but_the_end = [token for token in range(11) if token != END]
    steps = list(generate_tokens(model, PROMPTS, new_tokens=25, end=END, banned=everything_but_the_end))
    assert steps == [[None] * 4]
    assert len(model.reads) == 1


def test_banned_tokens_never_appear(any_model):
    banned = (0, 1, 2, 3, 5, 7)
    hows = (Sampling(temperature=0), Sampling(seed=1), Sampling(50.0), Sampling(top_k=3), Sampling(top_p=0.5))
    for sampling in hows:
        rows = texts(any_model, PROMPTS, sampling=sampling, banned=banned, end=None, new_tokens=25)
        assert not {token for row in rows for token in row} & set(banned)


def test_banning_leaves_the_model_as_it_was(any_model):
    """The same text after a generation in which it was forbidden."""
    before = texts(any_model, PROMPTS)
    texts(any_model, PROMPTS, banned=range(3, 9))
    assert texts(any_model, PROMPTS) == before


def test_every_token_is_read_once(any_model, counted):
    model = counted(any_model)
    [text] = texts(model, [PROMPTS[2]], end=None, new_tokens=20)
    assert len(text) == 20
    assert model.reads == [len(PROMPTS[2])] + [1] * 19                     # the last one chosen need not be read


def test_no_new_tokens_are_no_tokens_and_fewer_are_refused(any_model):
    assert texts(any_model, [[1]], new_tokens=0) == [[]]
    with pytest.raises(SettingError, match=r"^--tokens -1: must be 0 or more$"):
        texts(any_model, [[1]], new_tokens=-1)


def test_generating_puts_the_model_into_eval_mode(bounded):
    model = bounded(16).train()
    texts(model, [[1, 4]])
    assert not model.training


# ------------------------------------------------------------------------------- past the context limit


def windows_by_hand(model, prompt, sampling, new_tokens, row=0, banned=(0, 1, 3)):
    """The definition: read up to the limit; when full, forget all but the last half, and go on."""
    half = model.context // 2
    text, window = list(prompt), list(prompt)
    if len(window) > model.context:
        window = window[-max(1, half):]
    for _ in range(new_tokens):
        log_probs, _ = model.step(torch.tensor([window]), model.start(1, model.context))
        log_probs[:, list(banned)] = -torch.inf
        token = int(choose(log_probs, sampling, torch.tensor([row]), torch.tensor([len(text)])))
        if len(window) == model.context:
            window = text[-half:] if half else []
        text.append(token)
        window = [*window, token]
    return text[len(prompt):]


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("context", [1, 2, 3, 8])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 20])
def test_past_the_limit_it_goes_on_from_the_last_half(bounded, positions, context, length):
    model, sampling = bounded(context, positions), Sampling(seed=4)
    prompt = [1] + [4 + i * 3 % 7 for i in range(length - 1)]
    assert texts(model, [prompt], sampling=sampling, end=None,
                 new_tokens=30) == [windows_by_hand(model, prompt, sampling, 30)]


def test_past_the_limit_rows_of_different_lengths_still_do_not_disturb_each_other(bounded):
    model, sampling = bounded(8), Sampling(seed=6)
    expected = [windows_by_hand(model, prompt, sampling, 30, row) for row, prompt in enumerate(PROMPTS)]
    assert texts(model, PROMPTS, sampling=sampling, end=None, new_tokens=30) == expected


def test_the_last_half_is_read_again_once_per_half(bounded, counted):
    model = counted(bounded(8))
    texts(model, [[1, 4]], end=None, new_tokens=31)
    again = [size for size in model.reads if size > 1]
    # 2 + 6 fill the state; then each 4 more tokens cost 4 read again: 24 of the 30 that are read
    assert again == [2] + [4] * 6
    assert sum(model.reads) == 2 + 30 + 4 * 6


def test_it_says_so_once(bounded):
    said = []
    texts(bounded(8), [[1, 4], [1, 5, 6]], end=None, new_tokens=40, notice=said.append)
    assert said == ["past the 8 tokens the model can read at once: it goes on from the last 4"]
    said.clear()
    texts(bounded(8), [[1, *[4] * 11]], end=None, new_tokens=40, notice=said.append)
    assert said == ["the prompt has 12 tokens and the model reads at most 8: it begins with the last 4"]


def test_within_the_limit_nothing_is_said(bounded, any_model):
    said = []
    texts(bounded(8), [[1, 4]], end=None, new_tokens=6, notice=said.append)
    texts(any_model, [[1, 4]], end=None, new_tokens=20, notice=said.append)
    assert said == []
