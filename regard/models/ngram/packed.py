"""Arrays in few bytes that are read in place: nothing is unpacked before it is asked for.

    Pointers    rising numbers, as the small distance from a landmark every 64 of them
    Coded       numbers of which few differ, as short codes into a table of those that do

Back-off weights and counts repeat a lot: most contexts were followed once, by one word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.models.ngram.room import Ints

Numbers = NDArray[Any]

SPACING = 64              # pointers to a landmark
AT_ONCE = 1 << 20         # numbers packed at a time
SHORT = (np.uint8, np.uint16, np.uint32, np.int64)


def smallest(highest: int) -> np.dtype:
    """The narrowest type for numbers from 0 to `highest`."""
    return np.dtype(next(kind for kind in SHORT if highest <= np.iinfo(kind).max))


@dataclass(frozen=True)
class Pointers:
    """For each of C groups, which stand one after another, where its members begin; and where the last ones end."""

    landmarks: Ints          # (C / 64 + 1,)
    distances: Ints          # (C + 1,) from the landmark before

    @classmethod
    def from_sizes(cls, sizes: Ints) -> Pointers:
        begins = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=begins[1:])
        landmarks = begins[::SPACING].copy()
        for first in range(0, len(begins), AT_ONCE):                # a multiple of the spacing
            some = begins[first:first + AT_ONCE]
            some -= np.repeat(landmarks[first // SPACING:], SPACING)[:len(some)]
        return cls(landmarks.astype(smallest(int(landmarks[-1]))), begins.astype(smallest(int(begins.max()))))

    def __len__(self) -> int:
        return len(self.distances) - 1

    @property
    def total(self) -> int:
        return int(self.begin(np.array([len(self)]))[0])

    def begin(self, groups: Ints) -> NDArray[np.int64]:
        return np.add(self.landmarks[groups // SPACING], self.distances[groups], dtype=np.int64)

    def between(self, groups: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and last positions of these groups' members."""
        return self.begin(groups), self.begin(groups + np.int64(1))

    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.begin(np.arange(len(self.distances))))


@dataclass(frozen=True)
class Coded:
    """The numbers `values[codes]`."""

    codes: Ints
    values: Numbers

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, places: Any) -> Numbers:
        return self.values[self.codes[places]]


def coded(numbers: Numbers) -> Numbers | Coded:
    """Encode numbers in fewer bytes, if few enough differ; equal to the last bit."""
    values = np.zeros(0, numbers.dtype)
    for start in range(0, len(numbers), AT_ONCE):
        values = np.union1d(values, numbers[start:start + AT_ONCE])
        if len(values) > 2**16:
            return numbers
    kind = smallest(len(values) - 1)
    if len(numbers) * (numbers.itemsize - kind.itemsize) <= values.nbytes:
        return numbers
    codes = np.empty(len(numbers), kind)
    for start in range(0, len(numbers), AT_ONCE):
        codes[start:start + AT_ONCE] = np.searchsorted(values, numbers[start:start + AT_ONCE])
    return Coded(codes, values)
