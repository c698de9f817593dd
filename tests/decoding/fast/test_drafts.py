import math

import numpy as np
import pytest
import torch

from regard.decoding.fast.drafts import (
    SURE,
    NGramDrafter,
    NGramGuesses,
    PromptLookup,
    count_prompt,
    from_ngram,
    looked_up,
)
from regard.models.ngram import NGram


def random_text(seed, length=60, words=4):
    return np.random.default_rng(seed).integers(4, 4 + words, length).tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("longest", [2, 3, 8])
def test_a_look_up_finds_what_trying_every_place_finds(seed, longest):
    text = random_text(seed)
    draft = PromptLookup(text[:7], longest)
    for at in range(7, len(text)):
        assert draft.propose(5) == looked_up(text[:at], 5, longest)
        draft.extend(text[at:at + 1])
    assert draft.text == text


def test_the_longest_match_counts_and_of_equal_ones_the_last():
    assert looked_up([5, 6, 7, 8, 9, 6, 7, 4, 5, 6, 7], 2) == [8, 9]       # 5 6 7, and not the later 6 7
    assert looked_up([6, 7, 8, 6, 7, 9, 6, 7], 1) == [9]
    assert looked_up([4, 5, 6, 7], 3) == looked_up([4, 5, 4], 3) == []     # one token in common is too little


def test_a_text_that_goes_in_circles_is_guessed_to_go_on():
    assert PromptLookup([4, 5, 6, 4, 5, 6, 4, 5]).propose(7) == [6, 4, 5, 6, 4, 5, 6]


def likeliest_by_definition(model, text, history):
    """Of the words that followed the longest context seen, the one to which the model gives most."""
    log_probs, _ = model.step(torch.tensor([history]), model.start(1))
    for size in range(min(model.order - 1, len(history)), 0, -1):
        after = {text[at] for at in range(size, len(text)) if text[at - size:at] == history[-size:]}
        if after:
            best = max(after, key=lambda word: float(log_probs[0, word]))
            return best, math.exp(float(log_probs[0, best]))
    return 0, 0.0


@pytest.mark.parametrize("order", [2, 3, 5])
def test_an_ngram_guesses_the_likeliest_word_after_the_longest_context_seen(order):
    text = [1, *random_text(0, 80)]
    model = NGram.fit(np.array(text), vocab=11, order=order, dtype=torch.float64)
    guesses = NGramGuesses(model)
    for history in ([1, *random_text(seed, 6, words=5)] for seed in range(30)):
        word, chance = guesses.next(history)
        expected, there = likeliest_by_definition(model, text, history)
        assert chance == pytest.approx(there)
        assert word == expected or there == pytest.approx(                   # of equally likely words any will do
            math.exp(float(model.step(torch.tensor([history]), model.start(1))[0][0, word])))
        assert guesses.next(history) == (word, chance)                     # remembered


def test_an_ngram_stops_guessing_where_it_is_not_sure():
    text = [1, *[4, 5, 6, 7] * 10, *[7, 8, 7, 9, 7, 10] * 10]
    draft = NGramDrafter(NGramGuesses(NGram.fit(np.array(text), vocab=11, order=3)), [1, 4, 5])
    assert draft.propose(8)[:2] == [6, 7]
    unsure = NGramDrafter(NGramGuesses(NGram.fit(np.array(text), vocab=11, order=2)), [1, 7])
    assert unsure.guesses.next([7])[1] < SURE and unsure.propose(8) == []
    draft.extend([6])
    assert draft.propose(1) == [7]


def test_without_a_model_each_prompt_is_counted_and_one_with_nothing_to_count_has_no_guesses():
    make = from_ngram(None, 11)
    assert make([1, *[4, 5, 6] * 6, 4]).propose(3) == [5, 6, 4]
    assert count_prompt([1], 11) is None
    empty = make([1])
    empty.extend([4, 5])
    assert empty.propose(3) == []


def test_a_unigram_model_has_no_context_to_guess_from():
    model = NGram.fit(np.array(random_text(0)), vocab=11, order=1)
    assert NGramDrafter(NGramGuesses(model), [1, 4]).propose(4) == []
