"""The Triton convolution in Triton's interpreter, against the equation; run by test_convolve.py on its own.

TRITON_INTERPRET must be set before Triton is first imported, and changes Triton for the whole process.
"""

import torch

from regard.kernels.convolve import convolve
from regard.kernels.cuda import convolve as triton_convolution
from tests.kernels.test_convolve import SHAPES, by_equation, drawn, gradients


def equal(inputs, near=1e-12):
    right = gradients(by_equation, [each.double() for each in inputs])
    for got, expected in zip(gradients(convolve, inputs, path="triton"), right, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=near * (1 + expected.abs().max().item()))


def refused(inputs):
    try:
        equal(inputs, 1e-5)
    except AssertionError:
        return
    raise AssertionError("a planted bug went unnoticed")


torch.manual_seed(0)
triton_convolution.TIMES, triton_convolution.WIDE = 16, 8
for shape in SHAPES[:3]:
    equal(drawn(*shape, torch.float32), 1e-5)
wide, weight, bias = drawn(2, 20, 30, 4, torch.float32)
equal([wide[..., 3:20], weight[3:20], bias[3:20]], 1e-5)                # a slice of a wider tensor
equal([wide.transpose(0, 2)[:20].contiguous().transpose(0, 2), weight[:20], bias[:20]], 1e-5)
equal([each.half() for each in drawn(2, 33, 9, 3)], 4e-3)

backward = triton_convolution.backward
inputs = drawn(2, 33, 5, 4, torch.float32)


def with_taps_turned_round(dy, x, weight):
    return backward(dy, x, weight.flip(1))


def without_what_crosses_a_program(dy, x, weight):
    pieces = [backward(*(each[:, t:t + 16] for each in (dy, x)), weight) for t in range(0, 33, 16)]
    return torch.cat([piece[0] for piece in pieces], 1), sum(p[1] for p in pieces), sum(p[2] for p in pieces)


equal(inputs, 1e-5)
for wrong in (with_taps_turned_round, without_what_crosses_a_program):
    triton_convolution.backward = wrong
    refused(inputs)
print("all passed")
