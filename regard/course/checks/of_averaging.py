"""Checks of exercise 2: the mean of the real words of each row."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.course.student import Slip, Student, close, draw, finite, hold_equal, tensor

LENGTHS = torch.tensor([5, 2, 3])


def ask(student: Student, x: Tensor, lengths: Tensor = LENGTHS) -> Tensor:
    return tensor(student.average(x, lengths), (x.shape[0], x.shape[2]), "average")


def runs(student: Student) -> None:
    """It gives (B, D), and other numbers for other vectors."""
    one, other = ask(student, draw(3, 5, 4)), ask(student, draw(3, 5, 4, seed=1))
    if close(one, other):
        raise Slip("ignores_the_vectors", "two different batches have the same average: the vectors are not looked at")


def padding(student: Student) -> None:
    """Pads change no row: a text has the same average alone and beside a longer one."""
    x = draw(3, 5, 4)
    usual, padded = ask(student, x), x.clone()
    padded[1, 2:] = 50.0
    if not close(ask(student, padded), usual):
        raise Slip("pads_counted", "row 1 changed when its pads did: you average over pads too. Leave out every "
                                   "position from lengths[b] on, both in the sum and in the number that you divide by")


def divisor(student: Student) -> None:
    """The average of equal vectors is that vector."""
    x = torch.ones(3, 5, 4) * 3
    answer = finite(ask(student, x), "average")
    if close(answer, x[:, 0]):
        return
    if close(answer, x[:, 0] * LENGTHS[:, None]):
        raise Slip("sum_not_mean", "the average of equal vectors is their sum: divide by lengths[b]")
    if close(answer, x[:, 0] * LENGTHS[:, None] / 5):
        raise Slip("pads_counted", "pads are left out of the sum, but not of the divisor: divide each row by its own "
                                   "lengths[b], not by T")
    left = LENGTHS[:, None] - 1
    hold_equal("average", answer, x[:, 0], [
        ("word_dropped", lambda: x[:, 0] * left / (left + 1), "one word of each row is left out of the sum: positions "
            "0 to lengths[b] - 1 are words, range(lengths[b])"),
        ("wrong_divisor", lambda: x[:, 0] * (left + 1) / (left + 2), "the sum is divided by lengths[b] + 1: divide by "
            "the number of words")])


def any_order(student: Student) -> None:
    """The words of a row may come in any order."""
    x = draw(3, 5, 4)
    turned = x.clone()
    turned[0] = x[0].flip(0)
    if not close(ask(student, x), ask(student, turned)):
        raise Slip("order_matters", "row 0 changed when its words were put in another order: every word has the same "
                                    "weight in a mean")


def rows(student: Student) -> None:
    """No row reads another."""
    x = draw(3, 5, 4)
    other = x.clone()
    other[2] += 1
    if not close(ask(student, x)[:2], ask(student, other)[:2]):
        raise Slip("rows_mixed", "row 0 changed when row 2 did: average over the positions (dimension 1), not over "
                                 "the batch")


def empty(student: Student) -> None:
    """An empty text gives zeros."""
    answer = ask(student, draw(3, 5, 4), torch.tensor([5, 0, 3]))
    if not answer[1].isfinite().all():
        raise Slip("empty_text_nan", "a row of length 0 gives nan: 0 / 0. Divide by at least 1")
    if answer[1].abs().max() > 1e-6:
        raise Slip("empty_text", "a row of length 0 should give zeros")


def definition(student: Student) -> None:
    """The numbers are those of the formula."""
    x = draw(3, 5, 4, seed=2)
    right = torch.stack([row[:length].mean(0) for row, length in zip(x, LENGTHS.tolist(), strict=True)])
    hold_equal("average", ask(student, x), right)


CHECKS = {"runs": runs, "rows": rows, "padding": padding, "divisor": divisor, "any order": any_order, "empty": empty,
          "definition": definition}
