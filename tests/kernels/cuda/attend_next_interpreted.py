"""The Triton kernel of a step of attention in Triton's interpreter, against torch; run by test_attend_next.py.

TRITON_INTERPRET must be set before Triton is first imported, and changes Triton for the whole process.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from regard.kernels.attend_next import by_definition
from regard.kernels.cuda import attend_next as in_triton


def equal(batch, heads, key_heads, width, slots, counts, sloped=False, dtype=torch.float32, programs=128,
          turning=False):
    in_triton.PROGRAMS, in_triton.SHORTEST, in_triton.BLOCK = programs, 8, 8
    qkv = torch.randn(batch, heads + 2 * key_heads, width, dtype=dtype)
    q, k, v = qkv.split([heads, key_heads, key_heads], 1)                            # with strides, as a layer has them
    caches = [torch.randn(batch, slots, key_heads, width, dtype=dtype) for _ in range(2)]
    slopes = torch.rand(heads) if sloped else None
    ours, theirs = ([each.clone() for each in caches] for _ in range(2))
    near = dict(rtol=1e-5, atol=1e-6) if dtype == torch.float32 else dict(rtol=2e-2, atol=2e-2)
    count, rates = torch.tensor(counts), 10000.0 ** -torch.linspace(0, 1, width // 2) if turning else None
    (y, after), (expected, _) = (way(q, k, v, *caches, count, slopes, rates) for way, caches in (
        (in_triton.attend_next, ours), (by_definition, theirs)))
    torch.testing.assert_close(y, expected, **near)
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, **near)
    assert after.tolist() == [count + 1 for count in counts]


def plain():
    equal(2, 3, 3, 8, 40, [0, 39], programs=1)
    equal(3, 2, 2, 5, 17, [3, 8, 16], programs=1)


def parted():
    equal(2, 3, 3, 8, 40, [0, 39])
    equal(3, 2, 2, 5, 33, [7, 8, 20])


def grouped():
    equal(2, 4, 2, 8, 24, [5, 23])


def sloped():
    equal(2, 4, 4, 8, 24, [5, 23], sloped=True)


def turned():
    equal(2, 4, 2, 8, 40, [5, 39], turning=True)
    equal(2, 4, 4, 16, 24, [5, 23], turning=True, dtype=torch.bfloat16, programs=1)


def halves():
    equal(2, 4, 4, 16, 24, [5, 23], dtype=torch.bfloat16)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
