"""A plan: memory, traffic, time and hours of data parallel training and of FSDP, and the choice between them.

    plan = regard.plan_training(tokens=20 * 10**9, gpus="8xH200", params=10**9)
    plan.chosen.hours
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from regard.errors import SettingError
from regard.planning import messages, rank_memory
from regard.planning.blueprint import Blueprint
from regard.planning.figures import FEW_TOKENS, Speed, find_speed, step_seconds
from regard.planning.machines import GPU, GPUS, Machines, find_machines
from regard.planning.planned_model import PlannedModel, PlanRequest, find_model, with_batch

DATA, FSDP = "data parallel", "fsdp"
FAR = 4                        # times the parameters of the largest measured model: beyond, its speed is a guess
MOST_RANKS = 2**13             # that are tried where a model does not fit


@dataclass(frozen=True)
class Way:
    """One way to share the work out over the ranks."""

    name: str
    held: dict[str, float]             # bytes of a rank by what they are, activations too
    fits: bool
    rows: int                          # of a rank in a step
    at_once: int                       # rows of a rank in one pass
    messages: list[messages.Message]
    ranks: int
    compute: float | None              # seconds of a step; None: no figure to say it by
    communicate: float
    steps: int

    @property
    def leaving(self) -> float:
        """The bytes that leave each rank in a step."""
        return sum(message.leaving(self.ranks) for message in self.messages)

    @property
    def step(self) -> float | None:
        """The seconds of a step. FSDP's weights travel during the work on other layers; other messages come after."""
        if self.compute is None:
            return None
        during = sum(message.leaving(self.ranks) for message in self.messages if message.during_work)
        beside = self.communicate * during / self.leaving if during else 0.0
        return max(self.compute, beside) + self.communicate - beside

    @property
    def hours(self) -> float | None:
        return None if self.step is None else self.step * self.steps / 3600


@dataclass(frozen=True)
class PlannedRun:
    request: PlanRequest
    model: PlannedModel
    machines: Machines
    speed: Speed
    tokens_a_step: int
    ways: tuple[Way, ...]              # data parallel, and with several GPUs FSDP

    @property
    def blueprint(self) -> Blueprint:
        return self.model.blueprint

    @property
    def chosen(self) -> Way:
        """Data parallel where it fits: it talks once a step. Else FSDP, whether it fits or not."""
        return self.ways[0] if self.ways[0].fits else self.ways[-1]

    @cached_property
    def fewest(self) -> int:
        """The fewest GPUs of this kind, in powers of two, on which FSDP fits with a row at once; 0: none found."""
        room, ranks = rank_memory.usable(self.machines.gpu.memory), 2
        while ranks <= MOST_RANKS:
            held = sum(rank_memory.held_by_shard(self.blueprint, ranks).values())
            if max(held + kept(self.blueprint, self.speed, 1, self.model),
                   rank_memory.held_at_validation(self.blueprint, ranks)) <= room:
                return ranks
            ranks *= 2
        return 0


def plan_training(tokens: int, gpus: str, **wish: Any) -> PlannedRun:
    """PlannedRun a training run over so many tokens on `gpus`, as in 8xH200.

    The other names are those of a PlanRequest: `link`, `params`, `family`, `settings`, or the folder of a `run`. A wish
    that cannot be is a SettingError.
    """
    return make_plan(PlanRequest(tokens, gpus, **wish))


def make_plan(request: PlanRequest) -> PlannedRun:
    if request.tokens < 1:
        raise SettingError(f"--tokens {request.tokens}: give at least 1")
    machines = find_machines(request.gpus, request.link)
    model = with_batch(find_model(request), machines.count)
    blueprint = model.blueprint
    speed = find_speed(model.name, blueprint.training.recompute, blueprint.parameters)
    a_step = blueprint.training.batch * (blueprint.context if model.rows else 1)
    steps = max(1, round(request.tokens / a_step))
    names = (DATA, FSDP) if machines.count > 1 else (DATA,)
    ways = tuple(find_way(name, model, machines, speed, steps) for name in names)
    return PlannedRun(request, model, machines, speed, a_step, ways)


def find_way(name: str, model: PlannedModel, machines: Machines, speed: Speed, steps: int) -> Way:
    """Return what a way takes, with as many rows at once as fit: halved, as training halves them."""
    blueprint, ranks = model.blueprint, machines.count
    rows = math.ceil(blueprint.training.batch / ranks) if model.rows else 1
    held = (rank_memory.held_by_shard if name == FSDP else rank_memory.held_by_one)(blueprint, ranks)
    room = rank_memory.usable(machines.gpu.memory) - sum(held.values())
    at_once = min(rows, blueprint.training.micro_batch or rows)
    while at_once > 1 and not blueprint.training.micro_batch and kept(blueprint, speed, at_once, model, ranks) > room:
        at_once //= 2
    held["activations"] = kept(blueprint, speed, at_once, model, ranks)
    passes = math.ceil(rows / at_once)
    sent = messages.of_fsdp(blueprint, ranks, passes) if name == FSDP else messages.of_data_parallel(blueprint, ranks)
    leaving = sum(message.leaving(ranks) for message in sent)
    fits = held["activations"] <= room and (name == DATA or rank_memory.held_at_validation(
        blueprint, ranks) <= rank_memory.usable(machines.gpu.memory))
    return Way(name, held, fits, rows, at_once, sent, ranks,
               compute_seconds(name, model, machines, speed, rows),
               leaving / machines.link.speed if machines.link else 0.0, steps)


def kept(blueprint: Blueprint, speed: Speed, rows: int, model: PlannedModel, ranks: int = 1) -> float:
    """Return the bytes of activations of so many rows; of pairs, of a rank's share of the tokens."""
    tokens = rows * blueprint.context if model.rows else blueprint.training.batch / ranks
    return rank_memory.activations(blueprint, tokens, speed.channel_bytes)


def compute_seconds(name: str, model: PlannedModel, machines: Machines, speed: Speed, rows: int) -> float | None:
    """Return the seconds that a rank works in a step, by the speed that was measured; on another GPU in proportion to
    what the data sheets say of products and of memory."""
    if speed.operations is None:
        return None
    blueprint, ranks, measured = model.blueprint, machines.count, measured_gpu(speed)
    tokens = rows * blueprint.context if model.rows else blueprint.training.batch / ranks
    operations = speed.operations * machines.gpu.tflops / measured.tflops
    copies = speed.copies * machines.gpu.copies / measured.copies
    gathered = any(message.kind == "all-gather" for message in messages.of_data_parallel(blueprint, ranks))
    return step_seconds(blueprint, tokens, operations, copies, muon=1 / ranks if name == FSDP or gathered else 1.0,
                        update=1 / ranks if name == FSDP else 1.0)


def measured_gpu(speed: Speed) -> GPU:
    """Return the GPU on which the figures were measured."""
    return next(gpu for gpu in GPUS.values() if gpu.name in speed.device)


# ------------------------------------------------------------------------------------------------ what to beware of


def find_warnings(plan: PlannedRun) -> list[str]:
    """Return what a user should know of the chosen way, each in one line."""
    return [line for line in (does_not_fit(plan), is_not_halved(plan), is_unmeasured(plan), is_far(plan),
                              is_uneven(plan), is_small(plan), is_slow_link(plan), is_short(plan)) if line]


def does_not_fit(plan: PlannedRun) -> str:
    way, gpu = plan.chosen, plan.machines.gpu
    if way.fits:
        return ""
    room, weights = rank_memory.usable(gpu.memory), rank_memory.everything(plan.blueprint)["weights"]
    cure = (f"it takes {plan.fewest:,} GPUs with FSDP, or" if plan.fewest else
            f"at validations each rank gathers all weights, {say_size(weights)}, on any number of GPUs:"
            if weights > room / 2 else "no number of GPUs is enough for layers this wide:")
    return (f"does not fit: {say_size(sum(way.held.values()))} a rank with {way.at_once} row at once, of "
            f"{say_size(room)} that may be filled; {cure} fewer --params, or a shorter --context")


def is_not_halved(plan: PlannedRun) -> str:
    way = plan.chosen
    if way.name == DATA or not way.fits or way.at_once == way.rows or plan.blueprint.training.micro_batch:
        return ""
    return (f"FSDP does not halve the rows by itself when memory runs out: give --set training.micro_batch="
            f"{way.at_once}")


def is_unmeasured(plan: PlannedRun) -> str:
    name, speed, gpu = plan.model.name, plan.speed, plan.machines.gpu
    if speed.operations is None:
        return (f"no figure of the family {name} with training.recompute = {plan.blueprint.training.recompute}: "
                f"seconds and hours are not known, and activations are those of the {speed.activations_of}")
    if gpu is not measured_gpu(speed):
        return f"measured on {speed.device}, not on the {gpu.name}: speeds are in proportion to the data sheets"
    return ""


def is_far(plan: PlannedRun) -> str:
    if not plan.speed.figures or plan.blueprint.parameters <= FAR * max(each.parameters for each in plan.speed.figures):
        return ""
    largest = max(each.parameters for each in plan.speed.figures)
    return (f"the largest {plan.model.name} measured has {largest:,} parameters: its speed is taken, and wider "
            "products are rather quicker")


def is_uneven(plan: PlannedRun) -> str:
    batch, ranks = plan.blueprint.training.batch, plan.machines.count
    if not plan.model.rows or batch % ranks == 0:
        return ""
    idle = f"{ranks - batch} of {ranks} ranks have none" if batch < ranks else "some ranks wait for others"
    return f"--batch {batch} rows do not divide among {ranks} GPUs: {idle}"


def is_small(plan: PlannedRun) -> str:
    tokens = plan.chosen.at_once * plan.blueprint.context
    if not plan.model.rows or tokens >= FEW_TOKENS or plan.speed.operations is None:
        return ""
    return f"a rank reads {tokens:,} tokens at once: with so few a GPU is slower than was measured"


def is_slow_link(plan: PlannedRun) -> str:
    way = plan.chosen
    if way.compute is None or way.communicate <= way.compute:
        return ""
    return (f"the link is the limit: messages take {way.communicate / way.compute:.1f} times as long as the work; a "
            "larger --batch or a faster --link helps")


def is_short(plan: PlannedRun) -> str:
    return ("" if plan.request.tokens >= plan.tokens_a_step else
            f"--tokens {plan.request.tokens:,} are less than one step of {plan.tokens_a_step:,}")


def say_size(size: float) -> str:
    """Return bytes in three digits: 4.02 GB."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= 0.9995 * unit:
            return f"{size / unit:#.3g} {name}".replace(". ", " ")
    return f"{size:.0f} bytes"


# ------------------------------------------------------------------------------------------------------- as values


def as_dict(plan: PlannedRun) -> dict[str, Any]:
    """Return the whole plan as plain values: bytes, seconds, hours."""
    from regard.config import as_values
    from regard.planning.plan_text import find_reason, list_sources

    blueprint, chosen = plan.blueprint, plan.chosen
    return {
        "family": plan.model.name, "parameters": blueprint.parameters, "model": as_values(blueprint.settings),
        "vocab": plan.model.vocab if isinstance(plan.model.vocab, int) else list(plan.model.vocab),
        "optimizer": blueprint.training.optimizer, "recompute": blueprint.training.recompute,
        "gpus": plan.machines.count, "gpu": plan.machines.gpu.name, "gpu_memory": plan.machines.gpu.memory,
        "link": plan.machines.link.name if plan.machines.link else None,
        "link_bytes_a_second": plan.machines.link.speed if plan.machines.link else None,
        "tokens": plan.request.tokens, "tokens_a_step": plan.tokens_a_step, "batch": blueprint.training.batch,
        "steps": chosen.steps, "ways": {way.name: as_dict_of_way(way) for way in plan.ways}, "choice": chosen.name,
        "fits": chosen.fits, "hours": chosen.hours, "why": find_reason(plan), "warnings": find_warnings(plan),
        "sources": list_sources(plan)}


def as_dict_of_way(way: Way) -> dict[str, Any]:
    return {"memory": way.held, "memory_together": sum(way.held.values()), "fits": way.fits, "rows": way.rows,
            "rows_at_once": way.at_once,
            "messages": [{"name": each.name, "kind": each.kind, "bytes": each.size,
                          "leaving_a_rank": each.leaving(way.ranks)} for each in way.messages],
            "bytes_leaving_a_rank": way.leaving, "compute_seconds": way.compute,
            "communicate_seconds": way.communicate, "step_seconds": way.step, "hours": way.hours}
