"""Right: a loop over time."""

import torch


def rnn_step(h, x, W_h, W_x):
    rows = []
    for b in range(h.shape[0]):
        rows.append(torch.tanh(W_h @ h[b] + W_x @ x[b]))
    return torch.stack(rows)


def read_in_stretches(x, h, W_h, W_x, size):
    states = []
    for t in range(x.shape[1]):
        if t % size == 0:
            h = h.detach()
        h = rnn_step(h, x[:, t], W_h, W_x)
        states.append(h)
    return torch.stack(states, 1)
