"""Muon: momentum, with each matrix's update made orthogonal (Jordan et al. 2024).

    b = m b + (1 - m) g          the momentum
    u = m b + (1 - m) g          one look ahead (Nesterov)
    W = W - rate * sqrt(max(1, rows / columns)) * orthogonal(u)

`orthogonal` keeps a matrix's directions and makes all its singular values about one, by five rounds of a
polynomial in the matrix. Equal to torch.optim.Muon, but matrices of one shape go through together, which spares
hundreds of small kernel launches on a GPU, and on a CPU the arithmetic stays in float32, where bfloat16 is slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.ranks import ALONE, Ranks

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5


def orthogonal(u: Tensor) -> Tensor:
    """(N, rows, columns), each matrix with its singular values brought near one."""
    x = u.bfloat16() if u.is_cuda else u
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    x = by_definition(x) if u.is_cuda or x.shape[-2] == x.shape[-1] else by_squares(x)
    return (x.mT if tall else x).to(u.dtype)


def by_definition(x: Tensor) -> Tensor:
    """Five times: x becomes (a + b x x^T + c (x x^T)^2) x."""
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = a * x + torch.baddbmm(square, square, square, beta=b, alpha=c) @ x
    return x


def by_squares(x: Tensor) -> Tensor:
    """As `by_definition`, for wide matrices at two thirds of the cost: only x x^T is followed. float32 is exact enough.

    Each round multiplies x from the left by a polynomial p of g = x x^T, and so g by p^2, for they commute. The
    product of the p's is kept, and meets x once, at the end.
    """
    a, b, c = COEFFICIENTS

    def polynomial(g: Tensor) -> Tensor:
        p = torch.baddbmm(g, g, g, beta=b, alpha=c)
        p.diagonal(dim1=-2, dim2=-1).add_(a)
        return p

    g = x @ x.mT
    product = p = polynomial(g)
    for _ in range(ROUNDS - 1):
        g = p @ g @ p
        p = polynomial(g)
        product = p @ product
    return product @ x


@dataclass(frozen=True)
class Alike:
    """Tensors that hold matrices of the same shapes, so that these go through together."""

    parameters: list[Tensor]
    rows: tuple[int, ...]                  # of each matrix in a tensor; or one number: all have as many
    equal: bool


class Muon(torch.optim.Optimizer):
    """For the matrices inside a network; embeddings, gains and biases want AdamW.

    `parameters` says how many matrices are stacked in each: queries, keys and values are three, each made orthogonal
    by itself; or how many rows each of them has, where they are not equally large. Of several `ranks` each makes some
    of the matrices orthogonal; momenta and weights are everybody's.
    """

    def __init__(
        self, parameters: Mapping[nn.Parameter, int | tuple[int, ...]], lr: float | Tensor, momentum: float = 0.95,
        weight_decay: float = 0.0, ranks: Ranks = ALONE,
    ):
        self.ranks = ranks
        self.parts: dict[Any, int] = {each: parts for each, parts in parameters.items() if isinstance(parts, int)}
        self.rows: dict[Any, tuple[int, ...]] = {
            each: parts for each, parts in parameters.items() if isinstance(parts, tuple)}
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:                  # type: ignore[override]
        for group in self.param_groups:
            every = self._alike(group["params"])
            stacks = (stack for alike in every for stack in self._ahead(alike, group))
            updates = self.ranks.share_out(orthogonal, stacks)
            for alike in every:
                self._update(alike, group, updates)

    def _alike(self, parameters: list[Any]) -> list[Alike]:
        """Return the parameters that have a gradient, those with matrices of the same shapes together."""
        alike: dict[tuple[int, int, torch.dtype], list[Tensor]] = defaultdict(list)
        unequal: dict[tuple[tuple[int, ...], int, torch.dtype], list[Tensor]] = defaultdict(list)
        for parameter in parameters:
            if parameter.grad is not None and parameter in self.rows:
                unequal[self.rows[parameter], parameter.shape[1], parameter.dtype].append(parameter)
            elif parameter.grad is not None:
                rows, columns = parameter.shape
                alike[rows // self.parts[parameter], columns, parameter.dtype].append(parameter)
        return [*(Alike(each, (rows,), True) for (rows, _, _), each in alike.items()),
                *(Alike(each, sizes, False) for (sizes, _, _), each in unequal.items())]

    def _ahead(self, alike: Alike, group: dict[str, Any]) -> Iterator[Tensor]:
        """Yield the stacks (N, rows, columns) of matrices to make orthogonal: in tensors with unequal ones, one for
        each place."""
        ahead = self._look_ahead(alike.parameters, group)
        if alike.equal:
            yield torch.cat([each.unflatten(0, (-1, alike.rows[0])) for each in ahead])
        else:
            yield from torch.stack(ahead).split(alike.rows, 1)

    def _update(self, alike: Alike, group: dict[str, Any], updates: Iterator[Tensor]) -> None:
        parameters, columns = alike.parameters, alike.parameters[0].shape[1]
        if alike.equal:
            found = next(updates).split([self.parts[parameter] for parameter in parameters])
            steps = [each.flatten(0, 1) for each in found]
            factor = -scale_of(alike.rows[0], columns) * group["lr"]
        else:
            factor = -group["lr"]
            steps = list(torch.cat([next(updates) * scale_of(rows, columns) for rows in alike.rows], 1).unbind())
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_mul_(steps, factor)
        torch._foreach_add_(parameters, steps)

    def _look_ahead(self, parameters: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """Gradients with their momenta, as Nesterov adds them."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        momenta = [self._momentum(parameter) for parameter in parameters]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        return list(torch._foreach_lerp(gradients, momenta, group["momentum"]))

    def _momentum(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        return state["momentum"]


def scale_of(rows: int, columns: int) -> float:
    """The factor of an orthogonal matrix, with which a tall one changes its outputs as much as a square one."""
    return float(max(1.0, rows / columns) ** 0.5)
