"""Checks of exercise 1: probabilities from counts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.course.student import Slip, Student, close, finite, hold_equal, tensor

SENTENCES = [[0, 2, 3, 2, 4, 1], [0, 3, 2, 1], [0, 2, 3, 4, 1], [0, 3, 3, 1], [3, 2, 4], [2, 3, 5], [4, 3]]
VOCAB, K = 7, 0.5
NAME = "ngram_probabilities"


def counts_after(
    history: Sequence[int], sentences: Sequence[Sequence[int]] = SENTENCES, missed: int = 0,
) -> Tensor:
    """Counts of each word behind a history; so many n-grams at the beginning of each sentence are `missed`."""
    counts, n = torch.zeros(VOCAB, dtype=torch.float64), len(history) + 1
    for words in sentences:
        for i in range(n - 1 + missed, len(words)):
            if list(words[i - n + 1:i]) == list(history):
                counts[words[i]] += 1
    return counts


def right(context: Sequence[int], n: int, k: float = K, missed: int = 0) -> Tensor:
    counts = counts_after(context[len(context) - n + 1:], missed=missed)
    return (counts + k) / (counts.sum() + k * VOCAB)


def ask(
    student: Student, context: Sequence[int], n: int, k: float = K, sentences: Sequence[Sequence[int]] = SENTENCES,
) -> Tensor:
    given = [list(words) for words in sentences]
    return tensor(student.ngram_probabilities(given, list(context), n, VOCAB, k), (VOCAB,), NAME)


def runs(student: Student) -> None:
    """It gives a number for each word, and other numbers after another word."""
    one, other = finite(ask(student, [0], 2), NAME), ask(student, [4], 2)
    if close(one, other):
        raise Slip("ignores_the_context", "after word 0 and after word 4 the probabilities are the same: the context "
                                          "is not looked at")


def total(student: Student) -> None:
    """The probabilities add up to 1."""
    for context, n in (([0], 2), ([2, 3], 3), ([0], 1)):
        answer = ask(student, context, n).sum().item()
        if abs(answer - 1) < 1e-3:
            continue
        counted = counts_after(context[len(context) - n + 1:]).sum().item()
        divisor = (counted + K * VOCAB) / answer
        if abs(divisor - counted) < 1e-2 or abs(divisor - counted - K) < 1e-2:
            raise Slip("vocabulary_not_in_total", f"the probabilities add up to {answer:.3f}, not 1: k is added to "
                                                  "each of the counts, so the total must grow by k * vocab")
        if divisor > counted + K * VOCAB:
            raise Slip("history_at_the_end_counted", f"the probabilities add up to {answer:.3f}, not 1: a history at "
                "the very end of a sentence is counted in the total, though no word follows it")
        raise Slip("does_not_add_up", f"the probabilities after {context} add up to {answer:.3f}, not 1")


def smoothing(student: Student) -> None:
    """A word that was never seen there gets k / total, and a new history gives 1 / vocab each."""
    answer = ask(student, [0], 2)
    if answer[6].abs() < 1e-6:
        raise Slip("k_ignored", "a word that never followed the history has probability 0: add k to its count too")
    if not close(ask(student, [6], 2), torch.full((VOCAB,), 1 / VOCAB)):
        raise Slip("new_history", "after a history that was never seen all words should be equally likely, 1 / vocab")


def order_of_sentences(student: Student) -> None:
    """The sentences may come in any order."""
    backwards = SENTENCES[::-1]
    for context, n in (([4], 2), ([1], 2), ([2, 4], 3)):
        answer = ask(student, context, n)
        usual = finite(answer, NAME, "k_ignored", f"after {context} the probabilities are nan, 0 / 0: add k to every "
                                                 "count, and k * vocab to the total")
        if not close(usual, ask(student, context, n, sentences=backwards)):
            raise Slip("across_sentences", f"the probabilities after {context} change with the order of the "
                                           "sentences: your n-grams reach from the end of one sentence into the next")


def history(student: Student) -> None:
    """Only the last n - 1 words of the context count."""
    for n in (1, 2, 3):
        context = [4, 0, 2, 3]
        usual, early, late = ask(student, context, n), ask(student, [3, *context[1:]], n), ask(student, [4, 0, 3, 2], n)
        if not close(usual, early):
            raise Slip("first_words_as_history", f"with n = {n} the first of four words matters: the history is the "
                                                 f"last {n - 1} words of the context, context[len(context) - (n - "
                                                 "1):]")
        if n == 1 and not close(usual, late):
            raise Slip("history_too_long", "with n = 1 the history is empty: no word of the context may matter")
        if n > 1 and close(usual, torch.full((VOCAB,), 1 / VOCAB)):
            raise Slip("history_never_found", f"with n = {n} and a context of four words, all words are equally "
                       f"likely: your history is never found. Is it too long, or too short? It is the last {n - 1} of "
                       "them, context[len(context) - (n - 1):]")
        if n > 1 and close(usual, late):
            raise Slip("history_too_short", f"with n = {n} the last words of the context do not matter")


def definition(student: Student) -> None:
    """The numbers are those of the formula, for n = 1, 2 and 3."""
    for context, n in (([0], 1), ([0], 2), ([3], 2), ([4, 2], 2), ([0, 2], 3), ([2, 3], 3), ([0, 0, 2, 3], 4)):
        for k in (K, 2.0):
            wrong_n = [("history_too_long" if step > 0 else "history_too_short",
                        lambda context=context, n=n + step, k=k: right(context, n, k),
                        f"with n = {n} you count {n + step} words: the history has n - 1 words, and the word itself "
                        "makes n")
                       for step in (1, -1) if 1 <= n + step <= len(context) + 1]
            missed = ("first_ngram_missed", lambda context=context, n=n, k=k: right(context, n, k, missed=1), "the "
                      "first n-gram of each sentence is not counted: it ends with word n - 1, counted from 0")
            hold_equal(NAME, ask(student, context, n, k), right(context, n, k), [*wrong_n, missed])


CHECKS = {"runs": runs, "order of sentences": order_of_sentences, "total": total, "smoothing": smoothing,
          "history": history, "definition": definition}
