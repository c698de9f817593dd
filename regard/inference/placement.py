"""Placement: which device and how many threads each of several workers gets; and the ranks of torchrun."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from regard.data.workers import THREADS, cores
from regard.errors import SettingError
from regard.trained import VISIBLE


@dataclass(frozen=True)
class Rank:
    """The number of this process among those that torchrun started, of all and of this machine."""

    number: int = 0
    world: int = 1
    local: int = 0
    local_world: int = 1


def this_rank(environment: Mapping[str, str] = os.environ) -> Rank:
    """Return the rank that torchrun gave this process; alone where there is no torchrun."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return Rank()
    return Rank(int(environment["RANK"]), int(environment["WORLD_SIZE"]), int(environment.get("LOCAL_RANK", 0)),
                int(environment.get("LOCAL_WORLD_SIZE", 1)))


def count_workers(workers: int | None, gpus: list[str]) -> int:
    """Return how many workers there are: as many as asked for, else one a GPU, else this process alone."""
    return workers if workers is not None else max(1, len(gpus))


def place_workers(count: int, gpus: list[str]) -> list[dict[str, str]]:
    """Return the environment of each worker: one GPU, in turn; and of the CPU's threads an equal share."""
    threads = str(max(1, cores() // count))
    return [dict.fromkeys(THREADS, threads) | ({VISIBLE: gpus[number % len(gpus)]} if gpus else {})
            for number in range(count)]


def device_of_rank(device: str, rank: Rank, gpus: list[str]) -> str:
    """Return the device of a rank: its own GPU where there are some."""
    if rank.world == 1 or not gpus:
        return device
    if rank.local >= len(gpus):
        raise SettingError(f"torchrun started {rank.local_world} processes here, and there are {len(gpus)} GPUs: "
                           f"--nproc-per-node={len(gpus)}")
    return f"cuda:{rank.local}"
