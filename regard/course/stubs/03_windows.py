"""Exercise 3. Windows: a feed-forward language model reads the last n words, side by side.   B batch · T time · D width

    y[t] = [x[t - n + 1], ..., x[t - 1], x[t]]        the oldest first, this word last

Before the first word there are zeros. No window reads a later word, and none reads another row.
"""

from __future__ import annotations

from torch import Tensor


def windows(x: Tensor, n: int) -> Tensor:
    """Return, for each position, the vectors of the last n words in one long vector.   (B, T, D) -> (B, T, n * D)"""
    raise NotImplementedError
