"""Checks of exercise 12: what is kept, what is finished, and what wins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.course.student import Slip, Student

BOS, EOS, V = 0, 1, 5
MOST_CALLS = 20_000                               # of the model, in one search
Step = Callable[[list[int]], Tensor]


def model(seed: int, sharp: float = 1.5) -> Step:
    """A toy model: the log-probabilities after a text depend on all of it."""
    def step(text: list[int]) -> Tensor:
        number = seed
        for word in text:
            number = (number * 31 + word + 7) % 1_000_003
        scores = torch.randn(V, generator=torch.Generator().manual_seed(number)) * sharp
        scores[BOS] = -30.0
        return scores.log_softmax(-1)

    return step


def search(
    step: Step, width: int, longest: int, alpha: float, bos_counts: bool = False, multiplied: bool = False,
) -> list[int]:
    """Beam search as the exercise describes it, or with a mistake."""
    beam: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for _ in range(longest):
        continued = [(score + log_prob, [*words, word]) for score, words in beam
                     for word, log_prob in enumerate(step([BOS, *words]).tolist())]
        kept = sorted(continued, key=lambda each: -each[0])[:width]
        finished += [each for each in kept if each[1][-1] == EOS]
        beam = [each for each in kept if each[1][-1] != EOS]

    def value(each: tuple[float, list[int]]) -> float:
        size = (len(each[1]) + bos_counts) ** alpha
        return each[0] * size if multiplied else each[0] / size

    return max(finished + beam, key=value)[1]


def ask(
    student: Student, step: Step, width: int, longest: int, alpha: float, may_go_on: bool = True,
) -> list[int]:
    calls = 0

    def watched(text: Any) -> Tensor:
        nonlocal calls
        words = [int(word) for word in text]
        calls += 1
        if calls > MOST_CALLS:
            raise Slip("endless", f"the model was called more than {MOST_CALLS} times in one search: it follows more "
                                  "texts than `width`, or does not stop after `longest` words")
        if not words or words[0] != BOS:
            raise Slip("bos_missing", f"the model is asked about {words}: a text begins with bos")
        if EOS in words and not may_go_on:
            raise Slip("goes_on_after_eos", f"the model is asked what follows {words}: a text that ends in eos is "
                                            "finished. Put it aside, and never continue it")
        return step(words)

    answer = student.beam_search(watched, BOS, EOS, width, longest, alpha)
    try:
        words = [int(word) for word in answer]
    except Exception:
        raise Slip("wrong_type", f"beam_search returns a {type(answer).__name__}, not a list of word numbers") from None
    if words and words[0] == BOS:
        raise Slip("bos_included", "the result begins with bos: return what stands after it")
    if len(words) > longest:
        raise Slip("too_long", f"the result has {len(words)} words, more than longest = {longest}")
    return words


def sum_of(step: Step, words: list[int]) -> float:
    return math.fsum(step([BOS, *words[:i]])[word].item() for i, word in enumerate(words))


def runs(student: Student) -> None:
    """It gives a list of words, other ones for another model."""
    answer = {tuple(ask(student, model(seed), 2, 4, 0.0)) for seed in range(8)}
    if len(answer) < 2:
        raise Slip("ignores_the_model", "eight different models give the same text: step is not asked")


def finished(student: Student) -> None:
    """A text that ends in eos is never continued."""
    for seed in range(6):
        ask(student, model(seed), 4, 5, 1.0, may_go_on=False)


def one_wide(student: Student) -> None:
    """A beam of one follows the best word each time."""
    for seed in range(10, 18):
        step = model(seed)
        expected = search(step, 1, 5, 0.0)
        if (answer := ask(student, step, 1, 5, 0.0)) != expected:
            raise Slip("one_wide", f"with width = 1 and alpha = 0 the result is {answer}, not {expected}: of all "
                                   "continuations the best one is kept each time")


def wider(student: Student) -> None:
    """A wider beam finds texts that the best first word hides."""
    different, greedy, wrong = 0, 0, None
    for seed in range(20, 44):
        step = model(seed)
        expected, narrow = search(step, 6, 4, 0.0), search(step, 1, 4, 0.0)
        if expected == narrow:
            continue
        different += 1
        answer = ask(student, step, 6, 4, 0.0)
        greedy += answer == narrow
        wrong = wrong or ((answer, expected) if answer != expected else None)
    if different and greedy == different:
        raise Slip("greedy", "with width = 6 the result is that of width = 1: only the best continuation is followed. "
                             "Keep the `width` best of the continuations of all texts of the beam")
    if wrong:
        raise Slip("not_the_best", f"with width = 6 and alpha = 0 the result is {wrong[0]}, not {wrong[1]}: are the "
                                   "log-probabilities added up, and the best of all continuations kept?")


def length_norm(student: Student) -> None:
    """With alpha the score is divided by words ** alpha, and longer texts can win."""
    cases = [(model(seed, 1.0), width, 6, alpha) for seed in range(50, 62) for width, alpha in ((3, 1.0), (5, 0.7))]
    answer = [ask(student, *case) for case in cases]
    if answer == [search(*case) for case in cases]:
        return
    named = ("no_length_norm", "with alpha = 1 the short texts still win: the sums are compared as they are. Divide "
                              "each finished text's score by words ** alpha before you compare")
    suspects: list[tuple[str, list[list[int]], str]] = [
        (named[0], [search(step, width, longest, 0.0) for step, width, longest, _ in cases], named[1]),
        ("bos_counted", [search(*case, bos_counts=True) for case in cases], "bos is counted as a word: `words` counts "
            "what stands after it"),
        ("multiplied_by_length", [search(*case, multiplied=True) for case in cases], "the score is multiplied by "
            "words ** alpha: a log-probability is negative, divide it")]
    for name, would_return, message in suspects:
        if answer == would_return:
            raise Slip(name, message)
    if all(sum_of(case[0], words) >= sum_of(case[0], search(*case)) - 1e-4
           for case, words in zip(cases, answer, strict=True)):
        raise Slip(*named)
    place = next(i for i, case in enumerate(cases) if answer[i] != search(*case))
    raise Slip("wrong_text", f"with width = {cases[place][1]} and alpha = {cases[place][3]} the result is "
                             f"{answer[place]}, not {search(*cases[place])}")


def unfinished(student: Student) -> None:
    """A text that is cut at `longest` counts as finished."""
    for seed in range(70, 78):
        step = model(seed)
        for alpha in (0.0, 1.0):
            expected = search(step, 4, 3, alpha)
            if (answer := ask(student, step, 4, 3, alpha)) != expected:
                name = "unfinished_dropped" if expected[-1] != EOS else "stops_early"
                raise Slip(name, f"after longest = 3 words the result is {answer}, not {expected}: texts that are "
                                 "still in the beam then count as finished, and the best of all finished wins")


CHECKS = {"runs": runs, "finished": finished, "one wide": one_wide, "wider": wider, "length norm": length_norm,
          "unfinished": unfinished}
