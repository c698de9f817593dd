"""Optimisers: AdamW for everything, Muon for the matrices of the stack and AdamW for the rest, or plain descent.

Their state is saved as plain named tensors, so that a checkpoint needs no pickle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.contract import Role
from regard.errors import RunError
from regard.layers.roles import DECAYED, find_roles
from regard.ranks import ALONE, Ranks
from regard.training.muon import Muon
from regard.training.recorded_step import scalar
from regard.training.settings import TrainingSettings
from regard.training.sharded_muon import ShardedMuon

if TYPE_CHECKING:
    from regard.training.sharding import Shards


class Optimizers:
    """One or two torch optimisers that step together and know their parameters by name."""

    def __init__(self, model: nn.Module, s: TrainingSettings, ranks: Ranks = ALONE, shards: Shards | None = None):
        every = dict(model.named_parameters()) if shards is None else shards.own       # of a rank, its rows
        named = {name: p for name, p in every.items() if p.requires_grad}
        roles = {named[name]: role for name, role in find_roles(model).items() if name in named}
        matrices = {p: role.parts for p, role in roles.items() if role.kind == "matrix" and s.optimizer == "muon"}
        rest = {p: role for p, role in roles.items() if p not in matrices}
        self.names: dict[Tensor, str] = {p: name for name, p in named.items()}
        kind, make = ("sgd", make_sgd) if s.optimizer == "sgd" else ("adamw", make_adamw)
        self.parts: dict[str, tuple[torch.optim.Optimizer, float]] = {kind: (make(rest, s), s.learning_rate)}
        if matrices:
            rate = scalar(s.muon_rate, next(iter(matrices)).device)
            muon = (Muon(matrices, rate, weight_decay=s.weight_decay, ranks=ranks) if shards is None
                    else ShardedMuon(matrices, rate, shards, weight_decay=s.weight_decay))
            self.parts["muon"] = (muon, s.muon_rate)

    def set_rate(self, share: float) -> None:
        for optimizer, learning_rate in self.parts.values():
            for group in optimizer.param_groups:
                if isinstance(group["lr"], Tensor):            # on a GPU: recorded updates read it where it is
                    group["lr"].fill_(learning_rate * share)
                else:
                    group["lr"] = learning_rate * share

    def step(self) -> None:
        for optimizer, _ in self.parts.values():
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer, _ in self.parts.values():
            optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """Every number the optimisers remember, under `part/key/parameter`."""
        return {f"{part}/{key}/{name}": value.detach() for part, key, name, value in self._states()}

    def _states(self) -> Iterator[tuple[str, str, str, Tensor]]:
        for part, (optimizer, _) in self.parts.items():
            for parameter, state in optimizer.state.items():
                for key, value in state.items():
                    if value is not None:                      # a momentum that is not kept
                        yield part, key, self.names[parameter], torch.as_tensor(value)

    def load(self, tensors: dict[str, Tensor]) -> None:
        by_name = {name: p for p, name in self.names.items()}
        for path, value in tensors.items():
            part, key, name = path.split("/", 2)
            if part not in self.parts or name not in by_name:
                raise RunError(f"the checkpoint's optimizer state {path} does not belong to this model")
            parameter = by_name[name]
            self.parts[part][0].state[parameter][key] = value.to(parameter.device)


def make_adamw(roles: dict[nn.Parameter, Role], s: TrainingSettings) -> torch.optim.AdamW:
    device = next(iter(roles)).device
    return torch.optim.AdamW(groups(roles, s), lr=scalar(s.learning_rate, device), betas=(s.beta1, s.beta2), fused=True,
                             capturable=device.type == "cuda")


def make_sgd(roles: dict[nn.Parameter, Role], s: TrainingSettings) -> torch.optim.SGD:
    device = next(iter(roles)).device
    return torch.optim.SGD(groups(roles, s), lr=scalar(s.learning_rate, device), momentum=s.momentum, fused=True)


def groups(roles: dict[nn.Parameter, Role], s: TrainingSettings) -> list[dict[str, Any]]:
    """Parameters with weight decay and without: gains, biases and embeddings are left alone."""
    decayed = [p for p, role in roles.items() if role.kind in DECAYED]
    others = [p for p, role in roles.items() if role.kind not in DECAYED]
    both = {"params": decayed, "weight_decay": s.weight_decay}, {"params": others, "weight_decay": 0.0}
    return [group for group in both if group["params"]]

