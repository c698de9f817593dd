"""Worked examples: equations of attention, line by line. Positions, equivariance, location scores, heads.

The proof of equivariance is done in fractions: whole numbers in the matrices, and a softmax of powers of 3, so that two
sides of an equation are the same numbers and not nearly the same.   L length · D width · H heads · K head width
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.lab.in_the_open import OpenDot
from regard.lab.worked import Example, ExampleLine, line
from regard.lab.worked_attention import PLAIN, Matrix, read, rows_of, softmax_of_base, tensor, whole
from regard.layers.attend import attend
from regard.layers.positions import SinusoidalPositions
from regard.layers.scores import Location
from regard.layers.self_attention import SelfAttention
from regard.look import presets

F = Fraction

# ---------------------------------------------------------------------------------------- the sinusoid table


def sinusoids() -> list[ExampleLine]:
    """PE_2i(t) = sin(t / 10000^(2i/D)), PE_2i+1(t) = cos of the same; a shift is the same linear map everywhere."""
    width, position = 6, torch.arange(5)
    layer = SinusoidalPositions(width)
    ours = layer.vectors(position, torch.float64)
    rates = [10000 ** -(2 * i / width) for i in range(width // 2)]
    table = [[f(t * rate) for rate in rates for f in (math.sin, math.cos)] for t in range(5)]
    shift = torch.block_diag(*(tensor([[math.cos(3 * r), math.sin(3 * r)], [-math.sin(3 * r), math.cos(3 * r)]])
                               for r in rates))
    wide = SinusoidalPositions(512)
    lengths = [2 * math.pi / float(angle_of_a_step(wide, pair)) for pair in (0, 255)]
    return [
        line("the table, D = 6, t = 0 .. 4", "SinusoidalPositions", ours, table),
        line("PE(0)", "SinusoidalPositions", ours[0], [0, 1] * 3),
        line("the shortest wave, in units of 2 pi", "SinusoidalPositions", lengths[0] / (2 * math.pi), 1),
        line("the longest of D = 512: 10000^(510/512), which nears 10000 as D grows", "SinusoidalPositions",
             lengths[1] / (2 * math.pi) / 10000 ** (510 / 512), 1),
        line("a shift by 3 is one matrix for every t: PE(t + 3) = R PE(t)", "SinusoidalPositions",
             layer.vectors(position, torch.float64) @ shift.T, layer.vectors(position + 3, torch.float64)),
    ]


def angle_of_a_step(layer: SinusoidalPositions, pair: int) -> Tensor:
    """The angle by which a pair of channels turns from one position to the next."""
    sin, cos = layer.vectors(torch.tensor(1), torch.float64)[2 * pair:2 * pair + 2]
    return torch.atan2(sin, cos)


# ------------------------------------------------------------------------------------------- equivariance


def softmax3(scores: Matrix) -> Matrix:
    """Row by row, with powers of 3."""
    return np.array([softmax_of_base([int(s) for s in row], 3) for row in scores])


X, P = whole(presets.X), whole(presets.P)
W_Q, W_K, W_V = whole(presets.W_Q), whole(presets.W_K), whole(presets.W_V)
WQK = W_Q @ W_K.T


def by_attend(x: Matrix) -> Tensor:
    """A(X) by our own layer's function, with powers of 3."""
    q, k, v = (tensor(x @ w) for w in (W_Q, W_K, W_V))
    return read(q, k, v, 3)


def by_equation(x: Matrix) -> Matrix:
    return softmax3(x @ WQK @ x.T) @ x @ W_V


def expanded() -> list[ExampleLine]:
    """A(X) = softmax(Q K^T) V = softmax(X W_Q (X W_K)^T) X W_V = softmax(X W_Q W_K^T X^T) X W_V."""
    q, k, v = X @ W_Q, X @ W_K, X @ W_V
    return [
        line("Q K^T = X W_Q W_K^T X^T", "fractions", q @ k.T, X @ WQK @ X.T),
        line("softmax(Q K^T) V = softmax(X W_Q W_K^T X^T) X W_V", "fractions", softmax3(q @ k.T) @ v, by_equation(X)),
        line("and that is what attention gives", "attend", by_attend(X), by_equation(X)),
    ]


def equivariance() -> list[ExampleLine]:
    """A(P X) = P A(X), line by line, exactly; P moves the rows of X."""
    px, s, goal = P @ X, X @ WQK @ X.T, P @ by_equation(X)
    lines = [
        ("A(P X) = softmax(P X W (P X)^T) P X W_V", by_equation(px)),
        ("  = softmax(P (X W X^T) P^T) P X W_V", softmax3(P @ s @ P.T) @ P @ X @ W_V),
        ("  = P softmax((X W X^T) P^T) P X W_V", P @ softmax3(s @ P.T) @ P @ X @ W_V),
        ("  = P softmax(X W X^T) P^T P X W_V", P @ softmax3(s) @ P.T @ P @ X @ W_V),
        ("  = P softmax(X W X^T) X W_V, as P^T P = 1", P @ softmax3(s) @ X @ W_V),
        ("  = P A(X)", goal),
    ]
    four = tensor([[1], [2], [3], [4]])
    turned = four.flip(0)
    return [
        *(line(what, "fractions", ours, goal) for what, ours in lines),
        line("P^T P = 1", "fractions", P.T @ P, whole(np.eye(3, dtype=int).tolist())),
        line("A(P X) = P A(X)", "attend", by_attend(px), goal),
        line("X = [1 2 3 4]^T turned round: A(X') is A(X) turned round", "attend", read(turned, turned, turned),
             read(four, four, four).flip(0)),
    ]


# ---------------------------------------------------------------------------------------- location scores


def location() -> list[ExampleLine]:
    """e(q, k_i) = w_i · q + b_i is the score of a query (q, 1) and keys (w_i, b_i): A(q, K, V) with K = (W, b)."""
    query, keys, v = rows_of("location")                        # (q, 1), (W, b) and V
    layer = Location(1, 2, places=3).double()
    with torch.no_grad():
        layer.weight.copy_(keys[:, :2].T[None])
        layer.bias.copy_(keys[:, 2][None, None])
    nothing = torch.zeros(1, 1, 3, 2, dtype=torch.float64)      # a location score looks at no key
    asked = query[None, None, :, :2]
    general = read(query, keys, v)
    values = whole(presets.PRESETS["location"].values)
    [output] = softmax3(whole([[2, 0, 3]])) @ values
    return [
        line("e = W q + b", "Location", layer(asked, nothing), [2, 0, 3]),
        line("(q, 1) · (w_i, b_i)", "Dot", PLAIN(query[None, None], keys[None, None]), [2, 0, 3]),
        line("A(q, K, V) is location attention", "attend",
             attend(asked, nothing, v[None, None], score=layer), general),
        line("with base 3", "attend", read(query, keys, v, 3), output),
        line("in numbers", "fractions", output, [F(378, 37), F(168, 37)]),
    ]


# ------------------------------------------------------------------------------------------------ heads


def heads() -> list[ExampleLine]:
    """Multi-head is concat(A_1(X), .., A_H(X)) W_H; reshaped, heads are a batch; the work is the same for any H."""
    width, length = 8, 5
    x = (torch.arange(length * width, dtype=torch.float64).reshape(length, width) * 0.7).sin()
    layer = SelfAttention(width, heads=2, positions="none").double()
    with torch.no_grad():
        layer.qkv.weight.copy_((torch.arange(3 * width * width).reshape(3 * width, width) * 0.3).cos())
        layer.out.weight.copy_((torch.arange(width * width).reshape(width, width) * 0.5).sin())
    together, _ = layer(x[None])
    q, k, v = (each.unflatten(1, (2, 4)) for each in (x @ layer.qkv.weight.T).split(width, 1))       # (L, H, K)
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    each = [attend(*(y[None, None, :, head] for y in (q, k, v)), mask=mask)[0, 0] for head in range(2)]
    batched = attend(*(y.transpose(0, 1)[None] for y in (q, k, v)), mask=mask)[0].transpose(0, 1).flatten(1)
    return [
        line("concat(A_1, A_2) W_H", "SelfAttention, heads=2", together[0], torch.cat(each, 1) @ layer.out.weight.T),
        line("reshaped: heads as a batch", "attend", batched, torch.cat(each, 1)),
        *(line(f"products and sums with {h} heads, D = 8, L = 5", "SelfAttention", operations(h, width, length),
               2 * (4 * length * width**2 + 2 * length**2 * width)) for h in (1, 2, 4, 8)),
    ]


def operations(heads: int, width: int, length: int) -> int:
    """Products and sums of one layer, counted as it runs, with no kernel that would hide them."""
    layer = SelfAttention(width, heads=heads, positions="none")
    layer.score = OpenDot()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(torch.zeros(1, length, width))
    return counter.get_total_flops()


EXAMPLES = (
    Example("sinusoids", "The sinusoid table", "lecture 003", sinusoids),
    Example("expanded", "A(X) expanded", "lecture 003", expanded, ("expanded",)),
    Example("equivariance", "The proof of equivariance, line by line", "lecture 003", equivariance,
            ("expanded", "equivariance")),
    Example("location", "Location-linear attention is a special case", "lecture 003", location, ("location",)),
    Example("heads", "Multi-head is a concatenation times a matrix", "lectures 002 and 003", heads),
)
