"""The lectures' running task: both answers, alike often, at every length of every part."""

import re
from collections import Counter

import pytest

from regard.corpora import ab
from regard.data import embedded
from regard.errors import SettingError

PARTS = {part: list(embedded.lines("ab", part)) for part in ("train", "valid", "test")}


def read(line):
    """A line taken apart by a pattern of its own: the row, and the answer."""
    found = re.fullmatch(r"((?:[AB] )+)-> ([AB])", line)
    return found[1].replace(" ", ""), found[2]


@pytest.mark.parametrize("part", PARTS)
def test_the_answer_is_b_if_and_only_if_there_is_a_b(part):
    for row, answer in map(read, PARTS[part]):
        assert answer == ("A" if row == "A" * len(row) else "B")


@pytest.mark.parametrize("part", PARTS)
def test_both_answers_come_alike_often_at_every_length(part):
    counts = Counter((len(row), answer) for row, answer in map(read, PARTS[part]))
    assert {length for length, _ in counts} == set(range(4, 24))
    assert set(counts.values()) == {len(PARTS[part]) // 40} and len(counts) == 40


def test_the_beginning_of_a_part_is_as_balanced_as_the_whole():
    counts = Counter((len(row), answer) for row, answer in map(read, PARTS["train"][:80]))
    assert set(counts.values()) == {2} and len(counts) == 40


@pytest.mark.parametrize("part", PARTS)
def test_every_length_has_rows_with_one_b_and_with_many(part):
    """A single B is the hardest to keep in mind: a part without such rows would measure too little."""
    rows = {row for row, answer in map(read, PARTS[part]) if answer == "B"}
    for length in range(4, 24):
        own = [row.count("B") for row in rows if len(row) == length]
        assert own.count(1) >= 1 and len(own) - own.count(1) >= 1, length
    assert any(row.startswith("B") and row.count("B") == 1 for row in rows)


@pytest.mark.parametrize("part", PARTS)
def test_half_of_the_rows_with_a_b_have_a_single_one(part):
    counts = [row.count("B") for row, answer in map(read, PARTS[part]) if answer == "B"]
    assert 0.45 < counts.count(1) / len(counts) < 0.55


def test_rows_with_a_b_are_of_one_part_whatever_the_seed():
    rows = {part: {row for seed in range(5) for row, answer in map(read, ab.generate(2000, seed, part))
                   if answer == "B"} for part in ab.PARTS}
    assert not rows["train"] & rows["valid"] and not rows["train"] & rows["test"] and not rows["valid"] & rows["test"]
    assert sum(len(row) == 4 for part in rows.values() for row in part) == 2**4 - 1     # and none is left out


def test_any_lengths_may_be_asked_for_but_those_too_short_to_hold_anything_out():
    assert {len(read(line)[0]) for line in ab.generate(8, lengths=(40, 100))} == {40, 100}
    with pytest.raises(SettingError, match=r"ab with a row of 3 symbols: .* give lengths from 4 on"):
        ab.generate(8, lengths=(3, 9))
    with pytest.raises(SettingError, match="ab has no part tset: did you mean test"):
        ab.generate(8, part="tset")


def test_the_lectures_rows_are_answered():
    assert all(prompt.endswith(" ->") for prompt in ab.PROMPTS)
