"""Exercise 1. Counting: an n-gram model is a table of counts, smoothed.

    P(w | history) = (count(history, w) + k) / (sum over v of count(history, v) + k * vocab)

The history is the last n - 1 words of the context; with n = 1 it is empty. An n-gram stands inside one sentence: the
end of a sentence and the beginning of the next are no neighbours. A history that was never seen gives 1 / vocab each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def ngram_probabilities(
    sentences: Sequence[Sequence[int]],      # each a list of word numbers from 0 to vocab - 1
    context: Sequence[int],                  # the words read so far, at least n - 1 of them
    n: int,
    vocab: int,
    k: float,                                # above 0; added to every count
) -> Any:
    """Return P(w | context) for each word w: `vocab` numbers, as a list, an array or a tensor."""
    raise NotImplementedError
