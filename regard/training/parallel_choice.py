"""The choice between data parallel training, the same in buckets, and FSDP: what was asked for, or what a GPU can hold
and what connects the ranks."""

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
WAYS = ("auto", "data", "buckets", "fsdp")


def choose_way(plan: TrainingPlan, model: Learner, ranks: Ranks, say: Callable[[str], None]) -> str:
    """Return how several ranks share the work (data, buckets, fsdp), and say why where nobody asked for it."""
    asked = plan.request.parallel
    if asked not in WAYS:
        raise SettingError(f"parallel = {asked!r}: choose one of {', '.join(WAYS)}")
    if ranks.count == 1:
        if asked in ("buckets", "fsdp"):
            say("parallel   one rank holds everything: start several with torchrun")
        return "data"
    way = asked
    if asked == "auto":
        way = "data"
        if why := too_large(plan, model):
            way = "fsdp"
            say(f"parallel   fsdp: {why}")
        elif ranks.machines > 1 and runs_eagerly(plan):
            way = "buckets"
            say(f"parallel   buckets: ranks are on {ranks.machines} machines, and gradients travel during the work")
    if way == "fsdp" and not (plan.training.steps or plan.training.tokens):
        raise SettingError(f"--minutes {plan.training.minutes:g}: how many steps fit is timed by one rank, which does "
                           "not hold the model with --parallel fsdp: give --steps or --tokens")
    return way


def too_large(plan: TrainingPlan, model: Learner) -> str:
    """Return why one GPU cannot hold everything; "" where it can."""
    if plan.device.type != "cuda":
        return ""
    needs, has = held_by_one(model, plan.training), torch.cuda.get_device_properties(plan.device).total_memory
    return (f"with everything on each rank, a GPU would need {say_bytes(needs)} before it reads a row, and has "
            f"{say_bytes(has)}" if needs > USABLE * has else "")


def runs_eagerly(plan: TrainingPlan) -> bool:
    """Return whether gradients come one after another: those of a pass that is compiled or recorded whole come at its
    end, together."""
    return plan.training.compile == "no" or (plan.training.compile == "auto" and plan.device.type != "cuda")


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
