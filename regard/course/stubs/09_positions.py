"""Exercise 9. Positions: attention alone does not know the order of words, so each place has a vector that is added.

    p[t, 2i]     = sin(t / 10000^(2i / width))
    p[t, 2i + 1] = cos(t / 10000^(2i / width))        sines and cosines take turns; t counts from 0

In generation a model reads one word at a time: `first` is the position of the first vector given.
B batch · T time · D width, which is even
"""

from __future__ import annotations

from torch import Tensor


def sinusoids(length: int, width: int, first: int = 0) -> Tensor:
    """Return the vectors of the positions first, ..., first + length - 1.   (length, width)"""
    raise NotImplementedError


def add_positions(x: Tensor, first: int = 0) -> Tensor:
    """Return the word vectors with their positions' vectors added.   (B, T, D) -> (B, T, D)"""
    raise NotImplementedError
