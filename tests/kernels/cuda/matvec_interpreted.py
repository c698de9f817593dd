"""The Triton kernels of a step of generation in Triton's interpreter, against torch; run by test_linear.py.

TRITON_INTERPRET must be set before Triton is first imported, and changes Triton for the whole process.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch
from torch import nn

from regard.kernels import add_norm, linear
from regard.kernels.cuda import add_norm as add_norm_triton
from regard.kernels.cuda import matvec as in_triton

NEAR = {torch.float32: dict(rtol=1e-5, atol=1e-5), torch.bfloat16: dict(rtol=3e-2, atol=3e-2)}


def lines():
    in_triton.BLOCK, in_triton.PROGRAMS = 16, 2
    for rows, deep, wide in ((1, 16, 24), (3, 21, 7), (2, 40, 33)):
        for dtype, near in NEAR.items():
            x, weight, bias = (torch.randn(*shape, dtype=dtype) for shape in ((rows, 1, deep), (wide, deep), (wide,)))
            for activation in linear.IN_MATVEC if (rows, dtype) == (3, torch.float32) else linear.IN_MATVEC[-1:]:
                for b in (None, bias):
                    torch.testing.assert_close(in_triton.matvec(x, weight, b, activation),
                                               linear.by_definition(x, weight, b, activation), **near)


def norms():
    for rows, width in ((1, 16), (3, 21)):
        for dtype, near in NEAR.items():
            for norm in (nn.LayerNorm(width, bias=False), nn.RMSNorm(width, eps=1e-5)):
                norm = norm.to(dtype)
                nn.init.normal_(norm.weight)
                x, y = torch.randn(2, rows, 1, width, dtype=dtype)
                kind = add_norm.kind_of(norm) == "layer"
                for other in (None, y):
                    ours = add_norm_triton.add_norm(x, other, norm.weight, norm.eps, kind)
                    for own, expected in zip(ours, add_norm.by_definition(x, other, norm), strict=True):
                        torch.testing.assert_close(own, expected, **near)


if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.no_grad():
        globals()[sys.argv[1]]()
