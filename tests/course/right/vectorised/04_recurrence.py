"""Right: the batch at once, in nested loops over stretches."""

import torch


def rnn_step(h, x, W_h, W_x):
    return torch.tanh(h @ W_h.T + x @ W_x.T)


def read_in_stretches(x, h, W_h, W_x, size):
    states = []
    for stretch in x.split(size, dim=1):
        h = h.detach()
        for step in stretch.unbind(1):
            h = rnn_step(h, step, W_h, W_x)
            states.append(h)
    return torch.stack(states, dim=1)
