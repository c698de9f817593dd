"""Right: functional linear layers, and an accumulate over time."""

from itertools import accumulate

import torch
import torch.nn.functional as F


def rnn_step(h, x, W_h, W_x):
    return (F.linear(h, W_h) + F.linear(x, W_x)).tanh()


def read_in_stretches(x, h, W_h, W_x, size):
    def following(state, place_and_word):
        place, word = place_and_word
        return rnn_step(state if place % size else state.detach(), word, W_h, W_x)

    return torch.stack(list(accumulate(enumerate(x.unbind(1)), following, initial=h))[1:], 1)
