"""The Triton kernels that draw a token in Triton's interpreter, against sampling.py; run by test_sample.py.

TRITON_INTERPRET must be set before Triton is first imported, and changes Triton for the whole process.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from regard.decoding.sampling import Sampling, choose_by, row_noise, uniform
from regard.kernels import sample
from regard.kernels.cuda import sample as sample_triton


def rows_of_all_kinds(vocab):
    """Log-probabilities: plain ones, with ties, with many that are forbidden, with one that is nearly sure."""
    values = torch.randn(6, vocab).log_softmax(-1)
    values[1] = -torch.randint(3, (vocab,)).float()
    values[2, ::2] = -torch.inf
    values[3, vocab // 2] = 30.0
    values[4] = values[4, 0]
    values[5, ::3] = -0.0
    return values


def the_same(vocab, top_k, temperature, trials):
    values = rows_of_all_kinds(vocab)
    noise = row_noise(3, torch.arange(len(values)))
    room = sample.room(vocab, top_k)
    for position in range(trials):
        positions = torch.full((len(values),), position)
        ours = sample_triton.sample_tokens(values, noise, positions, temperature, room, top_k)
        expected = choose_by(values, Sampling(temperature, top_k), uniform(noise, positions))
        assert ours.tolist() == expected.tolist(), (vocab, top_k, temperature, position)


def likeliest():
    sample.SLOTS = 32
    for vocab, top_k, temperature in ((33, 5, 1.0), (100, 7, 0.3), (20, 10, 1.0), (70, 31, 1e-300)):
        the_same(vocab, top_k, temperature, 2)


def everything():
    sample.SLOTS = 32
    for vocab, temperature in ((7, 1.0), (64, 2.5), (100, 0.3), (100, 1e-300)):
        the_same(vocab, 0, temperature, 3)


if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.no_grad():
        globals()[sys.argv[1]]()
