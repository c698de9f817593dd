"""Muon for matrices whose rows are dealt out over ranks.

A matrix is made orthogonal as a whole. So each rank is the owner of some: it gets their rows from all ranks, makes them
orthogonal, and sends each rank its rows back. Two messages a step, in which every rank sends and gets about as much as
it holds; momenta stay where the rows are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.training.exchange import deal_matrices
from regard.training.muon import Muon, orthogonal, scale_of

if TYPE_CHECKING:
    from regard.training.sharding import Shards


class ShardedMuon(Muon):
    """Muon on this rank's rows. `parameters` are these rows; what their matrices are, the shards know by name."""

    def __init__(
        self, parameters: Mapping[nn.Parameter, int | tuple[int, ...]], lr: float | Tensor, shards: Shards,
        momentum: float = 0.95, weight_decay: float = 0.0,
    ):
        super().__init__(parameters, lr, momentum, weight_decay)
        self.shards = shards
        names = {id(weight): name for name, weight in shards.own.items()}
        self.named = {parameter: names[id(parameter)] for parameter in parameters}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:                  # type: ignore[override]
        for group in self.param_groups:
            mine = [each for each in group["params"] if each.grad is not None]
            if not mine:
                continue
            names = [self.named[each] for each in mine]
            shapes = tuple((1, *self.shards.shapes[name]) for name in names)
            owners = [owner for (owner,) in deal_matrices(shapes, self.shards.count)]
            wholes = self._bring_together(names, owners, self._look_ahead(mine, group))
            updates = self._deal_out(names, owners, self._work_out(wholes), mine)
            torch._foreach_mul_(mine, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_mul_(updates, -group["lr"])
            torch._foreach_add_(mine, updates)

    def _bring_together(self, names: list[str], owners: list[int], rows: list[Tensor]) -> dict[str, Tensor]:
        """Return the whole of each tensor that this rank owns, from the rows of all."""
        shards = self.shards
        given = [torch.cat([rows[0].new_empty(0), *(each.flatten() for each, owner in zip(rows, owners, strict=True)
                                                    if owner == rank)]) for rank in range(shards.count)]
        mine = [name for name, owner in zip(names, owners, strict=True) if owner == shards.number]
        sizes = [sum(self._size(name, rank) for name in mine) for rank in range(shards.count)]
        found = [iter(part.split([self._size(name, rank) for name in mine]))
                 for rank, part in enumerate(shards.group.swap(given, sizes))]
        return {name: torch.cat([next(part) for part in found]).view(shards.shapes[name]) for name in mine}

    def _deal_out(
        self, names: list[str], owners: list[int], wholes: dict[str, Tensor], like: list[Any]
    ) -> list[Tensor]:
        """Return this rank's rows of all tensors, of which each came from its owner."""
        shards = self.shards
        given = [torch.cat([like[0].new_empty(0),
                            *(whole[shards.rows(name, rank)].flatten() for name, whole in wholes.items())])
                 for rank in range(shards.count)]
        theirs = [[name for name, owner in zip(names, owners, strict=True) if owner == rank]
                  for rank in range(shards.count)]
        sizes = [sum(self._size(name, shards.number) for name in each) for each in theirs]
        found: dict[str, Tensor] = {}
        for each, part in zip(theirs, shards.group.swap(given, sizes), strict=True):
            found |= zip(each, part.split([self._size(name, shards.number) for name in each]), strict=True)
        return [found[name].view_as(parameter) for name, parameter in zip(names, like, strict=True)]

    def _work_out(self, wholes: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the updates of whole tensors: each of their matrices made orthogonal, those of one shape together."""
        matrices = {name: list(whole.split(self._rows_of(name))) for name, whole in wholes.items()}
        alike: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
        for name, several in matrices.items():
            for number, matrix in enumerate(several):
                alike[matrix.shape[0], matrix.shape[1]].append((name, number))
        for (rows, columns), places in alike.items():
            stack = orthogonal(torch.stack([matrices[name][number] for name, number in places]))
            for (name, number), update in zip(places, stack * scale_of(rows, columns), strict=True):
                matrices[name][number] = update
        return {name: torch.cat(several) for name, several in matrices.items()}

    def _rows_of(self, name: str) -> int | list[int]:
        """Return how many rows each matrix of a tensor has."""
        parts = self.shards.roles[name].parts
        return list(parts) if isinstance(parts, tuple) else self.shards.shapes[name][0] // parts

    def _size(self, name: str, rank: int) -> int:
        """Return how many numbers of a tensor a rank holds."""
        rows = self.shards.rows(name, rank)
        return (rows.stop - rows.start) * self.shards.shapes[name][1]
