"""The scan with a matrix: h[t] = W h[t-1] + b[t].

It mixes all channels at every step, and is linear all the same: pieces of the sequence are read side by side.
B batch · T time · N hidden width · C length of a piece
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.kernels.exported import exporting, loop
from regard.kernels.scan import SHORT, piece


def matrix_scan_loop(w: Tensor, b: Tensor, h: Tensor | None = None) -> Tensor:
    """h[t] = W h[t-1] + b[t], a step at a time: (B, T, N)."""
    h = torch.zeros_like(b[:, 0]) if h is None else h
    states = []
    for b_t in b.unbind(1):
        h = h @ w.T + b_t
        states.append(h)
    return torch.stack(states, 1)


def matrix_scan(w: Tensor, b: Tensor, h: Tensor | None = None) -> Tensor:
    """As `matrix_scan_loop`, in pieces at once: their ends from a start at zero, then all from their true starts.

    A piece of C positions turns the state that enters it into W^C h + its end, so only the pieces are gone through one
    after another: twice the products of the loop, in C + T / C steps instead of T.
    """
    if exporting():
        return _exported(w, b, h)
    if b.shape[1] <= SHORT:
        return matrix_scan_loop(w, b, h)
    size = piece(b.shape[1])
    left = b.shape[1] % size
    pieces = b[:, :b.shape[1] - left].unflatten(1, (-1, size)).unbind(2)              # C of (B, pieces, N)
    ends = torch.zeros_like(pieces[0])
    for b_c in pieces:
        ends = ends @ w.T + b_c
    power = torch.linalg.matrix_power(w, size).T
    entering = [torch.zeros_like(b[:, 0]) if h is None else h]
    for end in ends.unbind(1)[:-1]:
        entering.append(entering[-1] @ power + end)
    h, states = torch.stack(entering, 1), []
    for b_c in pieces:
        h = h @ w.T + b_c
        states.append(h)
    whole = torch.stack(states, 2).flatten(1, 2)
    return whole if not left else torch.cat((whole, matrix_scan_loop(w, b[:, -left:], whole[:, -1])), 1)


def _exported(w: Tensor, b: Tensor, h: Tensor | None) -> Tensor:
    def step(before: tuple[Tensor, ...], now: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        (h,), (b_t,) = before, now
        h = h @ w.T + b_t
        return (h,), h

    return loop(step, (torch.zeros_like(b[:, 0]) if h is None else h,), (b,))[1]
