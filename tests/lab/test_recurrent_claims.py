"""Claims about what an RNN can learn and how far it reads: tasks worked by hand, and causes that are really gone."""

import pytest
import torch

from regard.lab.claims import complex_enough, long_sequences
from regard.lab.exercises import FIRST
from regard.lab.experiment import Setting
from regard.lab.find import experiment
from regard.lab.verdict import FAILS, HOLDS, UNCLEAR, judge
from regard.layers.gated import GRU
from regard.layers.self_attention import SelfAttention

ON, OFF, OTHER = complex_enough.ON, complex_enough.OFF, complex_enough.OTHER


# ------------------------------------------------------------------------------------------------ complex enough


def test_what_is_added_is_what_each_task_says():
    one, three, word = FIRST + 1, FIRST + 3, OTHER + 1
    added = {"add": [3, 1, 1, 3], "some": [3, 0, 1, 0]}
    assert complex_enough.added("add", torch.tensor([[three, one, one, three]])).tolist() == [added["add"]]
    assert complex_enough.added("some", torch.tensor([[three, word, one, word]])).tolist() == [added["some"]]
    words = torch.tensor([[three, ON, three, one, OFF, one, OFF, ON, ON, three], [OFF, one, three, ON, one, one, one,
                                                                                  OFF, one, ON]])
    assert complex_enough.added("switch", words).tolist() == [[3, 0, 3, 1, 0, 0, 0, 0, 0, 3],
                                                              [0, 0, 0, 0, 1, 1, 1, 0, 0, 0]]


@pytest.mark.parametrize("task", complex_enough.EXERCISES)
def test_after_each_word_the_sum_so_far_is_asked(task):
    batch = complex_enough.sums(task, 40, 0, 3)
    for words, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        total, on = 0, True
        for word, target in zip(words, targets, strict=True):
            on = word == ON if word in (ON, OFF) else on
            total += word - FIRST if on and word < OTHER else 0
            assert target == FIRST + total % 2
    assert batch.counts.sum() == 40 * complex_enough.LENGTH // 2 and not batch.counts[:, 0].any()
    assert int(batch.tokens.max()) < complex_enough.VOCAB
    assert not torch.equal(batch.tokens, complex_enough.sums(task, 40, 0, -1).tokens)


def test_lessons_grow_from_two_words_to_all():
    batch = complex_enough.sums("add", 4, 0, 0)
    sizes = [complex_enough.lesson(batch, share / 10).tokens.shape[1] for share in range(11)]
    assert sizes[0] == 2 and sizes[-1] == sizes[8] == complex_enough.LENGTH and sizes == sorted(sizes)
    assert complex_enough.lesson(batch, 0).counts.all()


def vectors_after(cause, words):
    torch.manual_seed(0)
    with torch.no_grad():
        return complex_enough.model_of("gru", cause, "cpu").double().stack(words)[0]


def test_without_recurrence_a_word_knows_nothing_of_the_one_before():
    words = torch.randn(2, 5, 16, dtype=torch.float64)
    other = words.clone()
    other[:, 0] += 1
    for cause, differs in (("", True), ("recurrence", False), ("nonlinearity", True)):
        apart = (vectors_after(cause, words) - vectors_after(cause, other)).abs()
        assert bool((apart[:, -1] > 1e-6).any()) is differs and (apart[:, 0] > 1e-6).any()


def test_without_nonlinearity_a_recurrence_is_linear():
    one, two = torch.randn(2, 1, 5, 16, dtype=torch.float64)
    zero = torch.zeros_like(one)

    def bent(cause):
        whole, first, second, none = (vectors_after(cause, x) for x in (one + two, one, two, zero))
        return float((whole - first - second + none).abs().max())

    assert bent("nonlinearity") < 1e-9 and bent("") > 1e-3


# ------------------------------------------------------------------------------------------------ long sequences


def test_letters_are_asked_for_parity_or_for_the_majority():
    bits = torch.tensor(long_sequences.letters(20, 9, 0, 0).tokens.tolist()) - FIRST
    odd, more = (long_sequences.letters(20, 9, 0, 0, growing).targets - FIRST for growing in (False, True))
    for row, parities, majorities in zip(bits.tolist(), odd.tolist(), more.tolist(), strict=True):
        for t in range(9):
            assert parities[t] == sum(row[:t + 1]) % 2
            assert majorities[t] == (2 * sum(row[:t + 1]) > t + 1)


def test_only_the_last_quarter_is_measured():
    counts = long_sequences.at_the_end(long_sequences.letters(2, 16, 0, 0)).counts
    assert counts.tolist() == [[False] * 12 + [True] * 4] * 2


def test_multiplications_are_those_of_the_equations():
    gru, width = GRU(4, 6), 6
    with torch.no_grad():
        steps = long_sequences.multiplications(lambda: gru(torch.randn(1, 10, 4)))
    assert steps == 10 * 3 * width * (4 + width)
    attention = SelfAttention(4, heads=1, positions="none")
    attention.score = long_sequences.OpenDot()
    with torch.no_grad():
        assert long_sequences.multiplications(lambda: attention(torch.randn(1, 10, 4))) == 10 * 4 * 4 * 4 + 2 * 100 * 4


def test_a_recurrence_costs_as_much_a_word_and_attention_more_and_more():
    rnn, attention = (long_sequences.counted(Setting(quick=True, flipped=each)) for each in ("", "recurrence"))
    assert len(set(rnn["bytes"])) == 1 and rnn["multiplications exponent"] == pytest.approx(1)
    assert attention["bytes exponent"] > 0.9 and attention["multiplications exponent"] > 1.5


def test_the_verdict_on_long_sequences_follows_each_number():
    one = experiment("long-sequences")

    def verdict(right=1.0, grows=0.0, operations=1.0, window=0.5):
        seed = {"gru": {"right": [1.0, right]}, "window": {"right": [1.0, window]},
                "cost": {"bytes exponent": grows, "multiplications exponent": operations}}
        return judge(one, [seed] * 3)[0]

    assert verdict() == HOLDS and verdict(window=0.9) == UNCLEAR
    assert verdict(right=0.8) == verdict(grows=1.0) == verdict(operations=1.8) == FAILS
