"""The Triton kernel of the loss in Triton's interpreter, against torch; run by test_cross_entropy_triton.py.

TRITON_INTERPRET must be set before Triton is first imported, and changes Triton for the whole process.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from regard.kernels.cross_entropy import softmax_gradient_torch
from regard.kernels.cuda import cross_entropy as in_triton


def equal(rows, vocab, smoothing, softcap, block=16, tilt=0.0):
    in_triton.BLOCK = block
    logits = 3 * torch.randn(rows, vocab) + tilt * torch.arange(vocab)
    targets, shares = torch.randint(vocab, (rows,)), torch.rand(rows)
    ours, theirs = logits.clone(), logits.clone()
    h = torch.randn(rows, 5)
    loss, scales, scaled = in_triton.softmax_gradient(ours, targets, shares, h, smoothing, softcap)
    torch.testing.assert_close(loss, softmax_gradient_torch(
        theirs, targets, shares, smoothing, softcap, logits.__getitem__))
    torch.testing.assert_close(scaled, h * scales[:, None])
    torch.testing.assert_close(ours * scales[:, None], theirs * shares[:, None], rtol=1e-5, atol=1e-6)


def plain():
    for vocab in (5, 16, 17, 40):
        equal(3, vocab, 0.0, 0.0)


def rising():
    """Each block far above those before it, and one that rises a little, and falls again."""
    for tilt in (5.0, 1.5, -5.0):
        equal(4, 70, 0.0, 0.0, tilt=tilt)
    equal(4, 70, 0.0, 90.0, tilt=3.0)


def smoothed():
    equal(3, 21, 0.1, 0.0)


def capped():
    equal(3, 21, 0.0, 2.0)
    equal(2, 33, 0.1, 1.5)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
