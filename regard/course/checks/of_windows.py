"""Checks of exercise 3: the last n words, side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.course.student import (
    Slip,
    Student,
    Suspect,
    close,
    draw,
    hold_equal,
    name_the_mistake,
    tensor,
    who_reads_whom,
)


def ask(student: Student, x: Tensor, n: int) -> Tensor:
    return tensor(student.windows(x, n), (x.shape[0], x.shape[1], n * x.shape[2]), "windows")


def right(x: Tensor, n: int) -> Tensor:
    out = torch.zeros(x.shape[0], x.shape[1], n, x.shape[2])
    for t in range(x.shape[1]):
        for j in range(n):
            if t - n + 1 + j >= 0:
                out[:, t, j] = x[:, t - n + 1 + j]
    return out.flatten(2)


def runs(student: Student) -> None:
    """It gives (B, T, n * D), and other numbers for other vectors."""
    if close(ask(student, draw(2, 7, 4), 3), ask(student, draw(2, 7, 4, seed=1), 3)):
        raise Slip("ignores_the_vectors", "two different texts have the same windows: the vectors are not looked at")


def causality(student: Student) -> None:
    """No window reads a later word."""
    n, x = 3, draw(2, 7, 4)
    reads = who_reads_whom(lambda x: ask(student, x, n), x)
    later = reads.triu(1)
    if not later.any():
        return
    t, j = later.nonzero()[0].tolist()
    if not any(reads[t, t + 1] for t in range(2, 6)):
        raise Slip("wraps_around", f"position {t} changed when word {j} did: the end of the text comes in before its "
                                   "beginning. torch.roll turns around; put zeros before the text instead")
    raise Slip("looks_ahead", f"position {t} changed when word {j} did: your windows begin at their word and look "
                              "ahead. The zeros belong before the text, so that a window ends with its word")


def rows(student: Student) -> None:
    """No window reads another row."""
    x = draw(2, 7, 4)
    other = x.clone()
    other[1] += 1
    if not close(ask(student, x, 3)[0], ask(student, other, 3)[0]):
        raise Slip("rows_mixed", "row 0 changed when row 1 did: the batch was joined into one long text")


def beginning(student: Student) -> None:
    """Before the first word there are zeros."""
    x = draw(2, 7, 4)
    answer = ask(student, x, 3)
    numbers = sorted(answer[0, 0].tolist())
    if close(torch.tensor(numbers), torch.tensor(sorted([*x[0, 0].tolist(), *[0.0] * 8]))):
        return
    if close(answer[0, 0], x[0, 0].repeat(3)):
        raise Slip("not_zeros_before", "the window of the first word repeats that word: before it there are zeros")
    name_the_mistake(answer, suspects(x, 3))
    raise Slip("beginning", "the window of the first word should hold that word and zeros, and nothing else")


def suspects(x: Tensor, n: int) -> list[Suspect]:
    pieces = right(x, n).unflatten(2, (n, -1))
    before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
    return [
        ("newest_first", lambda: pieces.flip(2).flatten(2), "the words of a window stand the wrong way round: the "
            "oldest comes first and this word last"),
        ("interleaved", lambda: pieces.transpose(2, 3).flatten(2), "the numbers of the words are mixed: the whole "
            "vector of one word, then that of the next. A transpose is missing before the reshape"),
        ("without_this_word", lambda: right(before, n), "the window ends one word too early: it holds this word too, "
            "as its last"),
    ]


def definition(student: Student) -> None:
    """The oldest word stands first and this word last, for any n."""
    x = draw(2, 7, 4, seed=3)
    for n in (3, 1, 2, 5):
        hold_equal("windows", ask(student, x, n), right(x, n), suspects(x, n))


CHECKS = {"runs": runs, "rows": rows, "causality": causality, "beginning": beginning, "definition": definition}
