"""Right: one step after another."""

import torch


def combine(first, second):
    (a1, b1), (a2, b2) = first, second
    return a2 * a1, a2 * b1 + b2


def scan(a, b, h):
    states = []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)
