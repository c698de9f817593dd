"""Running experiments: arm by arm and seed by seed, kept after each, until all are done or the minutes are over.

Arms without times in them run side by side, each on one core; where times are measured an arm runs alone.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.errors import RunError
from regard.lab.experiment import Arm, Experiment, Setting, Values
from regard.lab.find import experiment as named
from regard.lab.results import Kept, key_of, open_results, where

SEEDS, QUICK_SEEDS = 5, 3
BUSY = 0.7                                 # of one core, beside this process: too much for a measurement of times

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How to run: for how many seeds, how large, where, for how long."""

    seeds: int = SEEDS
    quick: bool = False
    device: str = "cpu"
    flipped: bool = False
    minutes: float | None = None
    workers: int = 0                       # 0: one a core
    folder: str | None = None              # of the user's own experiments

    @property
    def settings(self) -> list[Setting]:
        return [Setting(seed, self.quick, self.device, self.flipped) for seed in range(self.seeds)]


@dataclass(frozen=True)
class Task:
    """One arm with one setting, that is still to be run."""

    experiment: Experiment
    arm: Arm
    setting: Setting

    @property
    def key(self) -> str:
        return key_of(self.arm, self.setting)


def run(experiments: Sequence[Experiment], plan: Plan, out: Path, say: Say) -> list[Experiment]:
    """Run what is missing; gives the experiments that are not complete yet: the time was over, or an arm failed.

    An arm that fails is told in a line, and the others go on.
    """
    until = None if plan.minutes is None else time.monotonic() + 60 * plan.minutes
    kept = {each.name: open_results(out, each, plan.device) for each in experiments}
    open_ = [task for each in experiments for task in missing(each, plan, kept[each.name])]
    beside = [task for task in open_ if not task.experiment.timing]
    alone = [task for task in open_ if task.experiment.timing]
    done = len(_all_tasks(experiments, plan)) - len(open_)

    def keep(task: Task, measured: Callable[[], tuple[Values, float]]) -> None:
        nonlocal done
        try:
            values, seconds = measured()
        except Exception as error:
            why = (str(error).strip().splitlines() or [""])[0]
            say(f"     {task.experiment.name}: {task.key} failed: {type(error).__name__}: {why}")
            return
        done += 1
        one = kept[task.experiment.name]
        one.add(task.key, values, seconds)
        one.record["where"] = where(plan.device)
        one.save()
        say(f"{done:>4} of {done + waiting()}   {task.experiment.name}: {task.key}   {seconds:.1f} s")

    def waiting() -> int:
        return sum(not kept[task.experiment.name].has(task.key) for task in open_)

    _side_by_side(beside, plan, until, keep)
    _one_by_one(alone, plan, until, keep, say)
    return [each for each in experiments if kept[each.name].seeds(each, plan.settings) is None]


def missing(experiment: Experiment, plan: Plan, kept: Kept) -> list[Task]:
    return [task for task in _all_tasks([experiment], plan) if not kept.has(task.key)]


def _all_tasks(experiments: Sequence[Experiment], plan: Plan) -> list[Task]:
    return [Task(each, arm, setting) for each in experiments for setting in plan.settings for arm in each.arms
            if not (arm.once and setting.seed)]


# ------------------------------------------------------------------------------------------ carrying out


def _side_by_side(tasks: Sequence[Task], plan: Plan, until: float | None, keep: Callable[..., None]) -> None:
    usual = (os.cpu_count() or 1) if plan.device == "cpu" else 1
    workers = min(plan.workers or usual, len(tasks))
    if workers <= 1:
        for task in _in_time(tasks, until):
            keep(task, partial(timed, task.arm, task.setting))
        return
    coming = _in_time(tasks, until)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_one_thread) as pool:
        running: dict[Future[Any], Task] = {}
        while True:
            while len(running) < workers and (new := next(coming, None)) is not None:
                running[pool.submit(carry_out, new.experiment.name, new.arm.name, new.setting, plan.folder)] = new
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                keep(running.pop(future), future.result)


def _one_by_one(tasks: Sequence[Task], plan: Plan, until: float | None, keep: Callable[..., None], say: Say) -> None:
    for task in _in_time(tasks, until):
        if (load := others_load()) > BUSY:
            say(f"     other work keeps {load:.1f} cores busy: the times of {task.experiment.name} may be off")
        keep(task, partial(timed, task.arm, task.setting))


def _in_time(tasks: Sequence[Task], until: float | None) -> Iterator[Task]:
    for task in tasks:
        if until is not None and time.monotonic() >= until:
            return
        yield task


def carry_out(experiment: str, arm: str, setting: Setting, folder: str | None) -> tuple[Values, float]:
    """One arm, in a process of its own."""
    found = named(experiment, folder)
    return timed(next(each for each in found.arms if each.name == arm), setting)


def timed(arm: Arm, setting: Setting) -> tuple[Values, float]:
    torch.manual_seed(setting.seed)
    began = time.perf_counter()
    values = arm.run(setting)
    if not isinstance(values, dict):
        raise RunError(f"arm {arm.name} gave a {type(values).__name__}: give a dict of numbers")
    return values, time.perf_counter() - began


def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def others_load(pause: float = 0.25) -> float:
    """Cores kept busy by other processes just now; 0 where that cannot be known."""

    def busy() -> tuple[float, float]:
        with open("/proc/stat") as file:
            numbers = [int(each) for each in file.readline().split()[1:9]]
        return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK"), time.process_time()

    try:
        (before, own), began = busy(), time.perf_counter()
        time.sleep(pause)
        (after, own_after), took = busy(), time.perf_counter() - began
    except OSError:
        return 0.0
    return max(0.0, ((after - before) - (own_after - own)) / took)
