"""The choice between data parallel training and FSDP: what was asked for, or what a GPU can hold."""

from __future__ import annotations

from collections.abc import Callable

import torch

from regard.contract import Learner
from regard.errors import SettingError
from regard.layers.roles import find_roles
from regard.ranks import Ranks
from regard.training.request import TrainingPlan
from regard.training.settings import TrainingSettings
from regard.training.traffic import say_bytes

USABLE = 0.9                   # of a GPU's memory; the rest is for CUDA, NCCL and gaps between tensors
WAYS = ("auto", "data", "fsdp")


def choose_sharded(plan: TrainingPlan, model: Learner, ranks: Ranks, say: Callable[[str], None]) -> bool:
    """Return whether weights are dealt out over the ranks, and say why where nobody asked for it."""
    asked = plan.request.parallel
    if asked not in WAYS:
        raise SettingError(f"parallel = {asked!r}: choose one of {', '.join(WAYS)}")
    if ranks.count == 1:
        if asked == "fsdp":
            say("parallel   one rank holds everything: start several with torchrun")
        return False
    sharded = asked == "fsdp"
    if asked == "auto" and plan.device.type == "cuda":
        needs, has = held_by_one(model, plan.training), torch.cuda.get_device_properties(plan.device).total_memory
        sharded = needs > USABLE * has
        if sharded:
            say(f"parallel   fsdp: with everything on each rank, a GPU would need {say_bytes(needs)} before it reads a "
                f"row, and has {say_bytes(has)}")
    if sharded and not (plan.training.steps or plan.training.tokens):
        raise SettingError(f"--minutes {plan.training.minutes:g}: how many steps fit is timed by one rank, which does "
                           "not hold the model with --parallel fsdp: give --steps or --tokens")
    return sharded


def held_by_one(model: Learner, s: TrainingSettings) -> int:
    """Return the bytes that each rank of data parallel training holds, but for activations: weights, gradients, the
    message that carries them, the optimizer's state and averages."""
    named, held = dict(model.named_parameters()), 0
    for name, role in find_roles(model).items():
        matrix = s.optimizer == "muon" and role.kind == "matrix"
        states = 1 if matrix else {"sgd": int(s.momentum > 0)}.get(s.optimizer, 2)
        held += named[name].numel() * named[name].element_size() * (3 + states + (s.ema > 0))
    return held


def refuse_counted(plan: TrainingPlan) -> None:
    """Refuse to deal out a family that is counted, by one process."""
    if plan.request.parallel == "fsdp":
        raise SettingError(f"--parallel fsdp: a {plan.family.name} is counted, by one process: leave it out")
