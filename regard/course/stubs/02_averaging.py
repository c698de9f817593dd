"""Exercise 2. Averaging: a text is the mean of its word vectors, in any order.   B batch · T time · D width

    y[b] = (x[b, 0] + ... + x[b, lengths[b] - 1]) / lengths[b]

A batch holds texts of different lengths, with pads behind the shorter ones. Pads may hold any number: a text
must give the same average alone and beside a longer one. An empty text (length 0) gives zeros.
"""

from __future__ import annotations

from torch import Tensor


def average(x: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean of each row's first `lengths[b]` vectors.   (B, T, D), (B,) -> (B, D)"""
    raise NotImplementedError
