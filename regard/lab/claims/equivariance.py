"""Permutation equivariance: attention without positions does not know the order of what it reads.

    A(X) = softmax(X W_Q W_K^T X^T) X W_V        and        A(P X) = P A(X) for every permutation P

since X W_Q W_K^T X^T becomes P S P^T, the softmax of rows goes along with P, and P^T P = 1 is left between the weights
and the values. Adding a vector for each place breaks it, and so does the causal mask, which stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.layers.attend import CAUSAL, attend
from regard.layers.positions import SinusoidalPositions

WIDTHS = (4, 16, 64)
LENGTH = 24


def distance(setting: Setting, *, positions: str = "none", causal: bool = False) -> Values:
    """max |A(P X) - P A(X)|, relative to the largest number in A(X), for several widths.

    Positions: none · of each place its own vector ("own") · of every place the vector of the first ("same").
    """
    numbers = []
    for width in WIDTHS:
        torch.manual_seed(setting.seed * 31 + width)
        x = torch.randn(LENGTH, width, dtype=torch.float64)
        matrices = [torch.randn(width, width, dtype=torch.float64) / width**0.5 for _ in range(3)]
        places = torch.zeros(LENGTH, width, dtype=torch.float64)
        if positions != "none":
            at = torch.arange(LENGTH) * (positions == "own")
            places = SinusoidalPositions(width).vectors(at, torch.float64)
        p = torch.randperm(LENGTH)

        def attention(x: Tensor, places: Tensor = places, matrices: list[Tensor] = matrices) -> Tensor:
            q, k, v = ((x + places) @ w for w in matrices)
            return attend(q[None, None], k[None, None], v[None, None], mask=CAUSAL if causal else None)[0, 0]

        whole = attention(x)
        numbers.append(float((attention(x[p]) - whole[p]).abs().max() / whole.abs().max()))
    return {"distance": numbers, "largest": max(numbers), "least": min(numbers)}


def plain(setting: Setting) -> Values:
    return distance(setting, positions="own" if setting.flipped == "order" else "none")


def with_positions(setting: Setting) -> Values:
    return distance(setting, positions="same" if setting.flipped == "places" else "own")


def with_mask(setting: Setting) -> Values:
    return distance(setting, causal=setting.flipped != "mask")


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    names = {"plain": "no positions", "positions": "with positions", "causal": "no positions, causal mask"}
    lines = [Line(name, WIDTHS, [[max(value, 1e-17) for value in own] for own in column(seeds, arm, "distance")])
             for arm, name in names.items()]
    return [Chart("How far A(PX) is from P A(X)", "width", "largest difference, relative", lines, log_x=True,
                  log_y=True)]


EXPERIMENT = Experiment(
    name="equivariance", number=7, title="Self-attention without positions is permutation equivariant",
    claim="A(PX) = P A(X) to rounding without positions; positions break it, and so does the causal mask.",
    source="lecture 003: without order there is only a set", equation="A(PX) = P A(X)",
    refuted="a difference beyond rounding without positions, or none with positions or with the mask",
    flips=(Flip("order", "adds position vectors to attention without positions", arms=("plain",)),
           Flip("places", "gives every place the same position vector", arms=("positions",)),
           Flip("mask", "takes the causal mask away", arms=("causal",))),
    arms=(Arm("plain", plain), Arm("positions", with_positions), Arm("causal", with_mask)),
    rules=(Rule("without positions and mask, A(PX) and P A(X) differ by at most", lambda s: s["plain"]["largest"],
                below=1e-12, exact=True, cause="order"),
           Rule("with positions they differ by at least", lambda s: s["positions"]["least"], above=1e-3, exact=True,
                cause="places"),
           Rule("with the causal mask they differ by at least", lambda s: s["causal"]["least"], above=1e-3, exact=True,
                cause="mask")),
    fixed=Fixed("2026-11-15", "3c70f9189a03"), charts=charts,
    notes="One head of width 4, 16 and 64 with random matrices, 24 random vectors, one random permutation a seed, in "
          "float64. A difference is the largest of all entries over the largest entry of A(X). On a CPU whatever the "
          "device.")
