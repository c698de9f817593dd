"""Exercises with known answers, drawn anew for each (seed, step): recall, order, translation of made-up words.

Ids 0 to 3 are <pad> <bos> <eos> <unk>, as everywhere.   B batch · T time
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from regard.corpora.stories import generate
from regard.lab.tiny import Exercise

FIRST = 4                                  # the first id that is a word
STORIES = 400                              # of which pieces are cut, letter by letter


def generator(seed: int, step: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1_000_003 + step + 17)


def only(tokens: Tensor, targets: Tensor, position: Tensor | int) -> Exercise:
    """A batch in which only one position of each row counts."""
    counts = torch.zeros(tokens.shape, dtype=torch.bool)
    rows = torch.arange(len(tokens))
    counts[rows, torch.as_tensor(position).expand(len(tokens))] = True
    return Exercise(tokens, targets, counts)


def any_b(rows: int, length: int, seed: int, step: int) -> Exercise:
    """The lecture's As and Bs: if any is B then B comes next, else A. One B at most, anywhere; half have none."""
    chance = generator(seed, step)
    tokens = torch.full((rows, length), FIRST)
    has = torch.rand(rows, generator=chance) < 0.5
    where = torch.randint(length, (rows,), generator=chance)
    tokens[torch.arange(rows)[has], where[has]] = FIRST + 1
    targets = tokens.roll(-1, 1)
    targets[:, -1] = FIRST + has.long()
    return only(tokens, targets, length - 1)


def recall_at(rows: int, distance: int, names: int, noise: int, seed: int, step: int) -> Exercise:
    """A name, then `distance` words of noise, then a question: which name was it?"""
    chance = generator(seed, step)
    name = FIRST + 1 + torch.randint(names, (rows,), generator=chance)
    words = FIRST + 1 + names + torch.randint(noise, (rows, distance), generator=chance)
    question = torch.full((rows, 1), FIRST)
    tokens = torch.cat((name[:, None], words, question), 1)
    targets = torch.cat((tokens[:, 1:], name[:, None]), 1)
    return only(tokens, targets, distance + 1)


def reversed_words(rows: int, lengths: tuple[int, int], words: int, seed: int, step: int) -> Exercise:
    """Translation of made-up words: each has one translation (the id after it, round), and the order is reversed.

    Source and target end with <eos>; rows of unequal length are padded.
    """
    chance = generator(seed, step)
    size = torch.randint(lengths[0], lengths[1] + 1, (rows,), generator=chance)
    return _pairs(torch.randint(words, (rows, int(size.max())), generator=chance), size, words)


def _pairs(drawn: Tensor, size: Tensor, words: int) -> Exercise:
    rows, longest = drawn.shape
    position = torch.arange(longest + 1)
    real, end = position < size[:, None], position == size[:, None]
    source = torch.zeros(rows, longest + 1, dtype=torch.long)
    source[:, :-1] = FIRST + drawn
    source = torch.where(real, source, 0) + 2 * end                                   # <eos>, then <pad>
    back = (size[:, None] - 1 - position).clamp(0, longest - 1)
    target = torch.where(real, FIRST + (drawn.gather(1, back) + 1) % words, 0) + 2 * end
    tokens = torch.cat((torch.ones(rows, 1, dtype=torch.long), target[:, :-1]), 1)    # <bos> first
    return Exercise(tokens, target, position <= size[:, None], source, size + 1, size + 1)


@cache
def story_text(seed: int) -> tuple[str, Tensor]:
    """The letters that our stories are written with, in order, and the stories as ids: FIRST for the first letter."""
    text = " ".join(generate(STORIES, seed))
    known = "".join(sorted(set(text)))
    return known, torch.tensor([FIRST + known.index(letter) for letter in text])


def letters(rows: int, length: int, seed: int, step: int) -> Exercise:
    """Pieces of the stories, letter by letter, each of which foretells the next. From step 0 on they are cut from the
    first nine tenths; before it, from the rest, which is never learned from."""
    _, text = story_text(seed)
    border = len(text) * 9 // 10
    least, most = (0, border - length) if step >= 0 else (border, len(text) - length)
    begins = torch.randint(least, most, (rows, 1), generator=generator(seed, step))
    pieces = text[begins + torch.arange(length + 1)]
    return Exercise(pieces[:, :-1], pieces[:, 1:], torch.ones(rows, length, dtype=torch.bool))


def any_distance(longest: int, seed: int, step: int) -> int:
    """A distance of this step, from one to the longest, short ones as often as long ones by their logarithm. Of a few
    fixed distances a recurrent state could learn the rhythm alone: powers of four are all one more than threes."""
    share = float(torch.rand(1, generator=generator(seed, step)))
    return round((longest + 1) ** share - 0.5) or 1
