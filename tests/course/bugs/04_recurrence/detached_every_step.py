"""Mistake: the state is detached at every step, so that nothing is learned over more than one."""

import torch


def rnn_step(h, x, W_h, W_x):
    return torch.tanh(h @ W_h.T + x @ W_x.T)


def read_in_stretches(x, h, W_h, W_x, size):
    states = []
    for t in range(x.shape[1]):
        h = rnn_step(h.detach(), x[:, t], W_h, W_x)
        states.append(h)
    return torch.stack(states, 1)
