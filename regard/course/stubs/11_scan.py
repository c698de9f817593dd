"""Exercise 11. The scan: a recurrence without a nonlinearity can be computed in parallel.   B batch · T time · D width

    h[t] = a[t] * h[t - 1] + b[t]

One step is the map h -> a * h + b. Two steps, one after the other, are again such a map: `combine` gives its
(a, b). As `combine` is associative, T steps can be combined in about log2(T) rounds, each a few operations on
whole tensors. a may be 0, which forgets everything before.
"""

from __future__ import annotations

from torch import Tensor

Step = tuple[Tensor, Tensor]                 # (a, b): the map h -> a * h + b


def combine(first: Step, second: Step) -> Step:
    """Return the one step that does what `first` and then `second` do."""
    raise NotImplementedError


def scan(a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """Return h[0], ..., h[T - 1], where `h` is the state before.   (B, T, D), (B, T, D), (B, D) -> (B, T, D)"""
    raise NotImplementedError
