"""Mistake: the tanh is left out."""

import torch


def rnn_step(h, x, W_h, W_x):
    return h @ W_h.T + x @ W_x.T


def read_in_stretches(x, h, W_h, W_x, size):
    states = []
    for t in range(x.shape[1]):
        h = rnn_step(h if t % size else h.detach(), x[:, t], W_h, W_x)
        states.append(h)
    return torch.stack(states, 1)
