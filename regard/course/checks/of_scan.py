"""Checks of exercise 11: combining steps, and the scan."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.course.student import Slip, Student, Suspect, close, draw, finite, hold_equal, tensor

B, T, D = 2, 7, 3


def given(time: int = T, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    return draw(B, time, D, seed=seed).sigmoid() + 0.2, draw(B, time, D, seed=seed + 1), draw(B, D, seed=seed + 2)


def right(a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    states = []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)


def ask(student: Student, a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    return tensor(student.scan(a, b, h), tuple(a.shape), "scan")


def combined(student: Student, first: Any, second: Any) -> tuple[Tensor, Tensor]:
    answer = student.combine(first, second)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Slip("wrong_type", f"combine returns a {type(answer).__name__}, not the pair (a, b) of one step")
    a, b = (tensor(each, tuple(first[0].shape), "combine") for each in answer)
    return a, b


def runs(student: Student) -> None:
    """combine gives a pair, and scan (B, T, D)."""
    combined(student, (draw(4), draw(4)), (draw(4, seed=1), draw(4, seed=2)))
    if close(ask(student, *given()), ask(student, *given(seed=5))):
        raise Slip("ignores_the_input", "scan gives the same for two different inputs")


def combine(student: Student) -> None:
    """The combined step does what the first and then the second do."""
    (a1, b1), (a2, b2), h = (draw(4, seed=1), draw(4, seed=2)), (draw(4, seed=3), draw(4, seed=4)), draw(4, seed=5)
    a, b = combined(student, (a1, b1), (a2, b2))
    hold_equal("a * h + b", a * h + b, a2 * (a1 * h + b1) + b2, [
        ("combine_swapped", lambda: a1 * (a2 * h + b2) + b1, "the steps are combined in the wrong order: this does "
            "the second, then the first. The first step's b is multiplied by the second's a: (a2 * a1, a2 * b1 + b2)"),
        ("b_not_multiplied", lambda: a1 * a2 * h + b1 + b2, "the first step's b must be multiplied by the second "
            "step's a"),
        ("a_added", lambda: (a1 + a2) * h + a2 * b1 + b2, "the two a are added: multiply them")])


def start(student: Student) -> None:
    """The scan begins with the state that is given."""
    a, b, h = given()
    first = ask(student, a, b, h)[:, 0]
    hold_equal("scan[:, 0]", first, a[:, 0] * h + b[:, 0], [
        ("start_ignored", lambda: b[:, 0], "the state before is left out: h[0] = a[0] * h + b[0]"),
        ("one_step_late", lambda: h, "the scan gives the states before each step: h[0] is the state after the first")])


def suspects(a: Tensor, b: Tensor, h: Tensor) -> list[Suspect]:
    return [
        ("start_ignored", lambda: right(a, b, torch.zeros_like(h)), "the state before is left out"),
        ("a_times_everything", lambda: right(a, a * b, h), "a multiplies b too: h = a * h + b, not a * (h + b)"),
        ("one_step_late", lambda: torch.cat([h[:, None], right(a, b, h)[:, :-1]], 1), "the scan gives the states "
            "before each step"),
        ("no_decay", lambda: h[:, None] + b.cumsum(1), "a is not used: this is a plain sum"),
    ]


def definition(student: Student) -> None:
    """The numbers are those of the recurrence, for any length."""
    for time in (T, 1, 2, 8, 13):
        a, b, h = given(time, seed=time)
        hold_equal("scan", ask(student, a, b, h), right(a, b, h), suspects(a, b, h))


def forgets(student: Student) -> None:
    """a = 0 forgets everything before."""
    a, b, h = given()
    a[:, 3] = 0.0
    answer = ask(student, a, b, h)
    finite(answer, "scan", "divides_by_products", "where a is 0 the scan gives nan: it divides by a product of the a. "
                                                 "Combine steps instead; no division is needed")
    hold_equal("scan", answer, right(a, b, h))


def long(student: Student) -> None:
    """A long text with small a overflows nowhere."""
    a, b, h = torch.full((B, 400, D), 0.5), draw(B, 400, D, seed=7), draw(B, D, seed=8)
    answer = ask(student, a, b, h)
    finite(answer, "scan", "divides_by_products", "over 400 steps of a = 0.5 the scan gives nan or inf: the product of "
                                                 "the a is too small to divide by. Combine steps instead; no division "
                                                 "is needed")
    hold_equal("scan", answer, right(a, b, h))


def cuts(student: Student) -> None:
    """A text read whole or cut anywhere, with the state carried, gives the same."""
    a, b, h = given()
    whole = ask(student, a, b, h)
    for cut in (1, 3, 6):
        head = ask(student, a[:, :cut], b[:, :cut], h)
        tail = ask(student, a[:, cut:], b[:, cut:], head[:, -1])
        if not close(torch.cat([head, tail], 1), whole):
            raise Slip("cut", f"cut after {cut} steps, with the last state handed on, the scan gives other numbers")


CHECKS = {"runs": runs, "combine": combine, "start": start, "definition": definition, "forgets": forgets,
          "long": long, "cuts": cuts}
