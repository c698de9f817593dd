"""Checks of exercise 5: which words are predicted, from what, and how they are averaged."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.course.student import Slip, Student, close, draw, finite, hold_equal, tensor

PAD, V = 0, 9
BOS, EOS = 1, 2
TOKENS = torch.tensor([[1, 5, 3, 8, 6, 4, 2], [1, 7, 2, 0, 0, 0, 0], [1, 3, 4, 2, 0, 0, 0]])
TARGETS, REAL = TOKENS[:, 1:], TOKENS[:, 1:] != PAD
B, T = TOKENS.shape


def ask(student: Student, logits: Tensor, tokens: Tensor = TOKENS) -> Tensor:
    return tensor(student.language_model_loss(logits, tokens, PAD), (), "language_model_loss")


def losses(logits: Tensor) -> Tensor:
    """(B, T - 1): the loss of each next token, pads too."""
    return -logits[:, :-1].log_softmax(-1).gather(-1, TARGETS[..., None])[..., 0]


def sure_of(words: Tensor) -> Tensor:
    return 30.0 * torch.nn.functional.one_hot(words, V)


def runs(student: Student) -> None:
    """It gives one number, and another for other scores."""
    one = finite(ask(student, draw(B, T, V)), "language_model_loss")
    if close(one, ask(student, draw(B, T, V, seed=1))):
        raise Slip("ignores_the_scores", "two different models have the same loss: the scores are not looked at")


def uniform(student: Student) -> None:
    """A model that knows nothing has the loss log(vocabulary)."""
    answer, right = ask(student, torch.zeros(B, T, V)), torch.tensor(math.log(V))
    words = int(REAL.sum())
    hold_equal("language_model_loss", answer, right, [
        ("softmax_over_time", lambda: torch.tensor(math.log(T - 1)), "a model that knows nothing has the loss "
            f"{answer:.3f}, the log of the number of positions, not log({V}): your softmax goes over the positions. "
            "Take it over the vocabulary, dim=-1"),
        ("softmax_over_time", lambda: torch.tensor(math.log(T)), "a model that knows nothing has the loss "
            f"{answer:.3f}, the log of the number of positions, not log({V}): your softmax goes over the positions. "
            "Take it over the vocabulary, dim=-1"),
        ("softmax_over_batch", lambda: torch.tensor(math.log(B)), "your softmax goes over the batch: take it over the "
            "vocabulary, dim=-1"),
        ("sum_not_mean", lambda: right * words, f"this is the sum over {words} words: divide by their number"),
        ("log_to_base_2", lambda: right / math.log(2), "this is in bits: the exercise asks for nats, the natural "
            "logarithm"),
        ("sign", lambda: -right, "the sign is wrong: a loss is the negative log-likelihood"),
        ("pads_in_the_count", lambda: right * words / (B * (T - 1)), "pads are left out of the sum, but not of the "
            "number of words that you divide by"),
        ("pads_in_the_count", lambda: right * words / (B * T), "pads are left out of the sum, but not of the number "
            "of words that you divide by"),
        *[("no_log", lambda value=value: torch.tensor(value), NO_LOG) for value in (1 - 1 / V, -1 / V)]])


NO_LOG = "the logarithm is missing: the loss is -log of a probability"


def next_word(student: Student) -> None:
    """A model that is sure of each next word, and right, has the loss 0."""
    following = torch.cat([TARGETS, torch.full((B, 1), PAD)], 1)
    answer = finite(ask(student, sure_of(following)), "language_model_loss")
    if answer.abs() < 1e-3:
        return
    if abs(answer.item() + 1) < 1e-3:
        raise Slip("no_log", f"a model that is sure of each next word, and right, has the loss -1: {NO_LOG}")
    if ask(student, sure_of(TOKENS)).abs() < 1e-3:
        raise Slip("not_shifted", "a model that is sure of each word it has just read has the loss 0: position t is "
                                  "compared with token t. It predicts token t + 1: logits[:, :-1] with tokens[:, 1:]")
    twice = math.log(math.e + V - 1) - 1
    if abs(answer.item() - twice) < 1e-2:
        raise Slip("softmax_twice", f"a model that is sure and right has the loss {answer:.3f}, not 0: the softmax is "
                                    "taken twice. cross_entropy and log_softmax take the scores as they are")
    raise Slip("not_the_next_word", f"a model that is sure of each next word, and right, has the loss {answer:.3f}, "
                                    "not 0")


def pads(student: Student) -> None:
    """No pad is predicted: scores before a pad change nothing, and neither do more pads."""
    logits = draw(B, T, V, seed=2)
    usual, other = ask(student, logits), logits.clone()
    other[:, :-1][~REAL] = draw(int((~REAL).sum()), V, seed=3) * 5
    if not close(ask(student, other), usual):
        raise Slip("pads_counted", "the loss changed with scores whose next token is a pad: pads are counted as "
                                   "words. Leave out every place where tokens[:, 1:] is pad, and divide by the number "
                                   "of the others")
    longer = torch.cat([TOKENS, torch.full((B, 3), PAD)], 1)
    if not close(ask(student, torch.cat([logits, draw(B, 3, V)], 1), longer), usual):
        raise Slip("pads_in_the_count", "the loss changes when pads are added behind the text: divide by the number "
                                        "of words that are no pads")


def ends(student: Student) -> None:
    """<eos> is predicted, and so is the first word after <bos>."""
    logits = draw(B, T, V, seed=4)
    usual = ask(student, logits)
    for place, row, mistake, told in ((1, 1, "eos_forgotten", "<eos>"), (0, 0, "first_word_forgotten", "the first "
        "word")):
        other = logits.clone()
        other[row, place] = draw(V, seed=5) * 5
        if close(ask(student, other), usual):
            raise Slip(mistake, f"scores of {told} change nothing: it is predicted too, like every other word")


def every_word_counts_the_same(student: Student) -> None:
    """Each word of the batch counts the same, whatever the length of its row."""
    logits = draw(B, T, V, seed=6) * 2
    per_word = losses(logits)
    right = per_word[REAL].mean()
    by_rows = torch.stack([row[real].mean() for row, real in zip(per_word, REAL, strict=True)])
    same = torch.nn.functional.nll_loss(logits.log_softmax(-1).flatten(0, 1), TOKENS.flatten(), ignore_index=PAD)
    hold_equal("language_model_loss", ask(student, logits), right, [
        ("mean_of_row_means", lambda: by_rows.mean(), "this is the mean of the rows' means: words of short rows count "
            "more. Add up all words of the batch, and divide once by their number"),
        ("sum_over_rows", lambda: per_word[REAL].sum() / B, "this is divided by the number of rows: divide by the "
            "number of words"),
        ("pads_counted", lambda: per_word.mean(), "pads are counted as words"),
        ("not_shifted", lambda: same, "position t is compared with token t, not with token t + 1"),
        ("no_log", lambda: 1 - per_word[REAL].neg().exp().mean(), "the logarithm is missing"),
        ("log_of_the_mean", lambda: -per_word[REAL].neg().exp().mean().log(), "this is the log of the mean "
            "probability: take the log of each word's probability, then the mean")])


def trainable(student: Student) -> None:
    """The loss has a gradient."""
    logits = draw(B, T, V, seed=7).requires_grad_()
    loss = ask(student, logits)
    if not loss.requires_grad:
        raise Slip("no_gradient", "the loss has no gradient, so that nothing can be learned from it: stay in torch, "
                                  "without .item(), float() or numpy")
    (answer,) = torch.autograd.grad(loss, logits)
    finite(answer, "the gradient of the loss")


CHECKS = {"runs": runs, "uniform": uniform, "next word": next_word, "pads": pads, "ends": ends,
          "words": every_word_counts_the_same, "trainable": trainable}
