"""Exercise 4. Recurrence: one cell for every step, and a carried state.   B batch · T time · D width · H hidden width

    h[t] = tanh(W_h h[t - 1] + W_x x[t])

Truncated back-propagation reads a long text in stretches. The state is carried from one stretch to the next, so
that the numbers are those of one long read; but no gradient flows back out of a stretch into an earlier one.
"""

from __future__ import annotations

from torch import Tensor


def rnn_step(h: Tensor, x: Tensor, W_h: Tensor, W_x: Tensor) -> Tensor:
    """Return the next hidden state.   (B, H), (B, D), (H, H), (H, D) -> (B, H)"""
    raise NotImplementedError


def read_in_stretches(x: Tensor, h: Tensor, W_h: Tensor, W_x: Tensor, size: int) -> Tensor:
    """Return every hidden state; each `size` steps a new stretch begins.   (B, T, D), (B, H) -> (B, T, H)"""
    raise NotImplementedError
