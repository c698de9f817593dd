"""Exercise 12. Beam search: follow the `width` best beginnings of a text, not only the best.

1. The beam begins with one text: [bos], with score 0.
2. Each text of the beam is continued by every word. The score of a text is the sum of the log-probabilities of
   its words.
3. Of all these continuations the `width` with the highest scores are kept. Those of them that end in eos are
   finished: they are put aside and never continued. The others are the new beam.
4. This goes on until the beam is empty or its texts have `longest` words after bos; these count as finished
   then.
5. The result is the finished text with the highest score / words ** alpha, where `words` counts what stands
   after bos, eos included. Without this (alpha = 0) every further word makes a text worse, and short ones win.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def beam_search(
    step: Callable[[list[int]], Tensor],     # a text, bos included -> (V,) log-probabilities of the next word
    bos: int, eos: int, width: int, longest: int, alpha: float,
) -> list[int]:
    """Return the words of the best text after bos, with eos where it ends in one."""
    raise NotImplementedError
