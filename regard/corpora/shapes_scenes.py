"""Scenes of `shapes`: the things in a picture, the words about them, and the part that it belongs to.

A scene has a first thing and perhaps another beside it, above or below it, or both. The caption follows from the
picture: of several things the large one is named first, then what stands beside it, then what is above or below. All
scenes of a batch are drawn at once, from hashes of (seed, part, number), so that a picture does not depend on its
neighbours.   N scenes · things: 0 the first, 1 the one beside it, 2 the one above or below
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

COLOURS = {"red": (214, 40, 40), "orange": (244, 140, 30), "yellow": (246, 220, 50), "green": (44, 160, 66),
           "cyan": (50, 200, 210), "blue": (44, 84, 214), "purple": (132, 50, 178), "pink": (245, 140, 190)}
COLOUR_WORDS = tuple(COLOURS)
SHAPES = ("square", "circle", "triangle", "diamond", "cross", "star")
SIZES = ("small", "large")
RELATIONS = (("left of", "right of"), ("above", "below"))        # where the first thing is, seen from thing 1, thing 2
PARTS = ("train", "valid", "test", "unseen")
VALID = 10                      # one caption in so many is held out, for `valid` and `test`
UNSEEN = 10                     # one combination of colour, shape and relation in so many
ALONE, BESIDE, STACKED, THREE = range(4)
KINDS = np.array([ALONE, ALONE, BESIDE, BESIDE, BESIDE, STACKED, STACKED, STACKED, THREE, THREE])     # how often each

Bits = NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Scenes:
    """Many scenes as arrays; what is absent is 0."""

    present: NDArray[np.bool_]        # (N, 3)
    colours: NDArray[np.int64]        # (N, 3) into COLOUR_WORDS
    shapes: NDArray[np.int64]         # (N, 3) into SHAPES
    large: NDArray[np.int64]          # (N,)   the first thing's size, into SIZES
    sides: NDArray[np.int64]          # (N, 2) into each of RELATIONS

    def __len__(self) -> int:
        return len(self.large)


def mix(x: Bits) -> Bits:
    """A hash of 64 bits each (the finaliser of SplitMix64, Steele et al. 2014): the same on any machine."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def keys(seed: int, part: str, numbers: NDArray[np.int64]) -> Bits:
    """One key a picture, from which all of it follows."""
    stream = zlib.crc32(f"shapes {part} {seed}".encode()) << 32             # numbers have the lower half to themselves
    return mix(mix(numbers.astype(np.uint64) + np.uint64(stream)) + np.uint64(GOLDEN))


def draw(key: Bits, slot: int, below: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """A whole number from 0 up to but not `below`, for each key; another slot, another number."""
    word = mix(key + np.uint64(slot * GOLDEN % 2**64)) >> np.uint64(32)
    return ((word * np.asarray(below, np.uint64)) >> np.uint64(32)).astype(np.int64)


def scenes(key: Bits, part: str) -> Scenes:
    """A scene of this part for each key: what things there are is drawn once, which ones until it belongs there."""
    kinds = KINDS[KINDS != ALONE] if part == "unseen" else KINDS
    kind = kinds[draw(key, 0, len(kinds))]
    drawn = _drawn(key, 0, kind)
    wrong = np.flatnonzero(~belongs(drawn, part))
    attempt = 0
    while len(wrong):
        attempt += 1
        again = _drawn(key[wrong], 16 * attempt, kind[wrong])
        for name, values in vars(again).items():
            getattr(drawn, name)[wrong] = values
        wrong = wrong[~belongs(again, part)]
    return drawn


def _drawn(key: Bits, slot: int, kind: NDArray[np.int64]) -> Scenes:
    present = np.stack([kind >= ALONE, (kind == BESIDE) | (kind == THREE), (kind == STACKED) | (kind == THREE)], 1)
    colours = np.stack([draw(key, slot + 1 + at, len(COLOURS)) for at in range(3)], 1) * present
    shapes = np.stack([draw(key, slot + 4 + at, len(SHAPES)) for at in range(3)], 1) * present
    large = np.where(kind == ALONE, draw(key, slot + 7, 2), 1)
    sides = np.stack([draw(key, slot + 8 + at, 2) for at in range(2)], 1) * present[:, 1:]
    return Scenes(present, colours, shapes, large, sides)


def belongs(scenes: Scenes, part: str) -> NDArray[np.bool_]:
    """True for the scenes of this part, whatever the seed; for none where two things have one name.

    A thing alone is of `train`, `valid` and `test`: so few captions (96) cannot be held out without a hole in what is
    learned, as if nothing small and red were ever square."""
    shut = np.zeros(len(scenes), dtype=bool)
    for thing in (1, 2):
        of_first, of_other = _unseen(thing - 1)
        side = scenes.sides[:, thing - 1]
        shut |= scenes.present[:, thing] & (of_first[scenes.colours[:, 0], scenes.shapes[:, 0], side]
                                        | of_other[scenes.colours[:, thing], scenes.shapes[:, thing], side])
    held = mix(_codes(scenes)) % np.uint64(VALID) == 0
    alone = ~scenes.present[:, 1:].any(1)
    right = shut if part == "unseen" else ~shut & (alone | (held == (part != "train")))
    name = np.where(scenes.present, scenes.colours * len(SHAPES) + scenes.shapes, [-1, -2, -3])
    alike = (name[:, 0] == name[:, 1]) | (name[:, 0] == name[:, 2]) | (name[:, 1] == name[:, 2])
    return right & ~alike


def _codes(scenes: Scenes) -> Bits:
    """A number for each caption: no two captions share one."""
    code = scenes.large
    for thing in range(3):
        code = (code * 2 + scenes.present[:, thing]) * len(COLOURS) + scenes.colours[:, thing]
        code = code * len(SHAPES) + scenes.shapes[:, thing]
    return (code * 4 + scenes.sides[:, 0] * 2 + scenes.sides[:, 1]).astype(np.uint64)


@cache
def unseen(*words: str) -> bool:
    """True if these never come together in `train` and `valid`: red · square · above, or below · blue · circle."""
    return zlib.crc32(" ".join(words).encode()) % UNSEEN == 0


@cache
def _unseen(axis: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By colour, shape and side: what the first thing may not be in a relation, and what the other may not."""
    first = [[[unseen(colour, shape, relation) for relation in RELATIONS[axis]] for shape in SHAPES]
             for colour in COLOURS]
    other = [[[unseen(relation, colour, shape) for relation in RELATIONS[axis]] for shape in SHAPES]
             for colour in COLOURS]
    return np.array(first), np.array(other)


def words(scenes: Scenes) -> Iterator[list[tuple[str, int]]]:
    """The caption of each scene, word by word, with the things meant: bit k for thing k, 0 for none."""
    rows = zip(scenes.present.tolist(), scenes.colours.tolist(), scenes.shapes.tolist(), scenes.large.tolist(),
               scenes.sides.tolist(), strict=True)
    for present, colours, shapes, large, sides in rows:
        names = [[(COLOUR_WORDS[colour], 1 << thing), (SHAPES[shape], 1 << thing)]
                 for thing, (colour, shape) in enumerate(zip(colours, shapes, strict=True))]
        alone = not present[1] and not present[2]
        caption = _with_article([(SIZES[large], 1), *names[0]] if alone else names[0])
        for thing in (1, 2):
            if present[thing]:
                joined = [("and", 0)] if thing == 2 and present[1] else []
                relation, *of = RELATIONS[thing - 1][sides[thing - 1]].split()
                caption += [*joined, (relation, 1 | 1 << thing), *((word, 0) for word in of)]
                caption += _with_article(names[thing])
        yield caption


def _with_article(name: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [("an" if name[0][0][0] in "aeiou" else "a", 0), *name]
