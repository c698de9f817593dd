"""Mistake: each stretch begins again from zeros: no gradient crosses, and no memory either."""

import torch


def rnn_step(h, x, W_h, W_x):
    return torch.tanh(h @ W_h.T + x @ W_x.T)


def read_in_stretches(x, h, W_h, W_x, size):
    states = []
    for t in range(x.shape[1]):
        if t and t % size == 0:
            h = torch.zeros_like(h)
        h = rnn_step(h, x[:, t], W_h, W_x)
        states.append(h)
    return torch.stack(states, 1)
