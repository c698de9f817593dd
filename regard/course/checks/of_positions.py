"""Checks of exercise 9: the vectors of the positions, and adding them once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.course.student import Slip, Student, close, draw, finite, hold_equal, tensor

LENGTH, WIDTH = 9, 6


def right(length: int = LENGTH, width: int = WIDTH, first: int = 0) -> Tensor:
    t = torch.arange(first, first + length, dtype=torch.float64)[:, None]
    angles = t / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def by_exponent(exponents: Tensor, base: float = 10000.0) -> Tensor:
    t = torch.arange(LENGTH, dtype=torch.float64)[:, None]
    angles = t / base ** exponents
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def ask(student: Student, length: int = LENGTH, width: int = WIDTH, first: int | None = None) -> Tensor:
    answer = student.sinusoids(length, width) if first is None else student.sinusoids(length, width, first)
    return tensor(answer, (length, width), "sinusoids")


def add(student: Student, x: Tensor, first: int | None = None) -> Tensor:
    answer = student.add_positions(x) if first is None else student.add_positions(x, first)
    return tensor(answer, tuple(x.shape), "add_positions")


def runs(student: Student) -> None:
    """The vectors are (length, width), and those of two positions differ."""
    answer = finite(ask(student), "sinusoids")
    if close(answer[1], answer[2]):
        raise Slip("same_everywhere", "positions 1 and 2 have the same vector: t does not enter")
    add(student, draw(2, 4, WIDTH))


def definition(student: Student) -> None:
    """The numbers are those of the formula."""
    table = right()
    i = torch.arange(WIDTH // 2, dtype=torch.float64)
    sines, cosines = table[:, 0::2], table[:, 1::2]
    hold_equal("sinusoids", ask(student), table, [
        ("counted_from_one", lambda: right(first=1), "the first position is counted as 1: t begins at 0, where the "
            "sines are 0 and the cosines 1"),
        ("halves_not_interleaved", lambda: torch.cat([sines, cosines], 1), "all sines stand first and then all "
            "cosines: they take turns, sin in column 0, cos in column 1, and so on"),
        ("sine_and_cosine_swapped", lambda: torch.stack([cosines, sines], -1).flatten(1), "sines and cosines are "
            "exchanged: column 0 is a sine"),
        ("wrong_exponent", lambda: by_exponent(i / WIDTH), "the exponent is i / width: it should be 2i / width"),
        ("wrong_exponent", lambda: by_exponent(4 * i / WIDTH), "the exponent is 4i / width: if i already counts 0, 2, "
            "4, ... do not double it again"),
        *[("wrong_base", lambda base=base: by_exponent(2 * i / WIDTH, base), f"the base is {base:g}: it should be "
            "10000") for base in (10.0, 100.0, 1000.0, 1e5, math.e)],
        ("multiplied", lambda: by_exponent(-2 * i / WIDTH), "t is multiplied by 10000^(2i / width): divide by it")])


def counted_on(student: Student) -> None:
    """The positions from `first` on are those of a longer table: reading on changes nothing."""
    whole, on = ask(student, 8), ask(student, 3, first=5)
    if not close(on, whole[5:]):
        if close(on, whole[:3]):
            raise Slip("first_ignored", "sinusoids(3, width, first=5) gives the positions 0, 1, 2: `first` is not "
                                        "used, so that in generation every word stands at position 0")
        hold_equal("sinusoids(3, width, first=5)", on, right(3, first=5))


def added_once(student: Student) -> None:
    """To zeros, just the table is added, once."""
    table = ask(student, 4)
    answer = add(student, torch.zeros(2, 4, WIDTH))
    hold_equal("add_positions", answer, table.expand(2, 4, WIDTH), [
        ("added_twice", lambda: 2 * table.expand(2, 4, WIDTH), "the positions are added twice: to zeros, just the "
            "table is added"),
        ("not_added", lambda: torch.zeros(2, 4, WIDTH), "nothing is added to zeros: are the vectors multiplied?")])


def words_stay(student: Student) -> None:
    """The word vectors are added as they are, in every row."""
    x = draw(3, 4, WIDTH, seed=1)
    table = ask(student, 4)
    hold_equal("add_positions", add(student, x), x + table, [
        ("added_twice", lambda: x + 2 * table, "the positions are added twice"),
        ("words_scaled", lambda: x * WIDTH ** 0.5 + table, "the words are multiplied by sqrt(width): add the table to "
            "the vectors as they are"),
        ("words_dropped", lambda: table.expand(3, 4, WIDTH), "the words are gone: x plus the table")])


def add_on(student: Student) -> None:
    """add_positions counts from `first` too."""
    x = draw(2, 3, WIDTH, seed=2)
    hold_equal("add_positions", add(student, x, 5), x + ask(student, 3, first=5), [
        ("first_ignored", lambda: x + ask(student, 3), "add_positions(x, first=5) adds the positions 0, 1, 2: `first` "
            "is not handed on")])


CHECKS = {"runs": runs, "counted on": counted_on, "definition": definition, "added once": added_once,
          "words stay": words_stay, "add on": add_on}
