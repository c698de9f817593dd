"""Mistake: the state is carried into the next stretch with its gradient."""

import torch


def rnn_step(h, x, W_h, W_x):
    return torch.tanh(h @ W_h.T + x @ W_x.T)


def read_in_stretches(x, h, W_h, W_x, size):
    states = []
    for stretch in x.split(size, 1):
        for t in range(stretch.shape[1]):
            h = rnn_step(h, stretch[:, t], W_h, W_x)
            states.append(h)
    return torch.stack(states, 1)
