"""Running experiments: arm by arm and seed by seed, kept after each, until all are done or the minutes are over.

Arms without times in them run side by side, each on one core, or on one GPU; where times are measured an arm runs
alone. An arm is kept only if the code on disk is still what it was at the start: workers read it when they begin, and
what is kept says by which code it was measured.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from regard.errors import RunError
from regard.lab.experiment import Arm, Experiment, Setting, Values
from regard.lab.find import experiment as named
from regard.lab.results import has_changed, key_of, open_results
from regard.trained import VISIBLE, list_gpus, pick_device

SEEDS, QUICK_SEEDS = 9, 3                  # from nine on an interval is sure and lets one seed be far off
BUSY = 0.7                                 # of one core, beside this process: too much for a measurement of times

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run: how many seeds, how large, where, for how long."""

    seeds: int = SEEDS
    quick: bool = False
    device: str = "cpu"
    flipped: bool = False                  # also with each cause taken away, to compare
    minutes: float | None = None
    workers: int = 0                       # 0: one a core
    folder: str | None = None              # of the user's own experiments
    cause: str = ""                        # flipped: this one alone

    def settings(self, flip: str = "") -> list[Setting]:
        return [Setting(seed, self.quick, self.device, flip) for seed in range(self.seeds)]

    def flips_of(self, experiment: Experiment) -> list[str]:
        """The causes that are taken away, one after another."""
        return [flip.name for flip in experiment.flips if self.flipped and self.cause in ("", flip.name)]

    @property
    def side_by_side(self) -> int:
        return self.workers or ((os.cpu_count() or 1) if self.device == "cpu" else max(1, len(list_gpus(self.device))))


@dataclass(frozen=True)
class ArmRun:
    """One arm with one setting, that is still to be run."""

    experiment: Experiment
    arm: Arm
    setting: Setting

    @property
    def key(self) -> str:
        return key_of(self.experiment, self.arm, self.setting)


def run_arms(experiments: Sequence[Experiment], plan: RunPlan, out: Path, say: Say) -> list[Experiment]:
    """Run the missing arms. Returns the experiments that are not complete yet: time was over, an arm failed, or
    their code changed. An arm that fails is reported in a line, and the others go on. Without anything to run no
    device is asked for.
    """
    progress = Progress(experiments, plan, out, say)
    if progress.open:
        pick_device(plan.device)
    _side_by_side(progress, plan)
    _one_by_one(progress)
    return [each for each in experiments
            if each.name in progress.changed or any(
                progress.results[each.name].seeds(each, plan.settings(flip)) is None
                for flip in ("", *plan.flips_of(each)))]


def _list_all(experiments: Sequence[Experiment], plan: RunPlan) -> list[ArmRun]:
    """Every arm of the run as it is; for each flip also the arms that it changes."""
    return [ArmRun(each, arm, setting) for each in experiments for flip in ("", *plan.flips_of(each))
            for setting in plan.settings(flip) for arm in each.arms
            if not (arm.once and setting.seed) and (not flip or each.changes(flip, arm))]


# --------------------------------------------------------------------------------------------- keeping count


class Progress:
    """Results so far, arms that are still open, the time these may take, and reports to the user."""

    def __init__(self, experiments: Sequence[Experiment], plan: RunPlan, out: Path, say: Say):
        self.results = {each.name: open_results(out, each, plan.device) for each in experiments}
        every = _list_all(experiments, plan)
        self.open = [arm_run for arm_run in every if arm_run.key not in self.results[arm_run.experiment.name].arms]
        self.total, self.done = len(every), len(every) - len(self.open)
        self.until = None if plan.minutes is None else time.monotonic() + 60 * plan.minutes
        self.workers = plan.side_by_side
        self.changed: set[str] = set()                       # experiments whose code is no longer what it was
        self.took: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.say = say

    def coming(self, *, timing: bool) -> Iterator[ArmRun]:
        """The arms to run next, as long as there is time and their code is the same."""
        for arm_run in [arm_run for arm_run in self.open if arm_run.experiment.timing == timing]:
            if self.until is not None and time.monotonic() >= self.until:
                return
            if arm_run.experiment.name not in self.changed:
                yield arm_run

    def keep(self, arm_run: ArmRun, measured: Callable[[], tuple[Values, float]]) -> None:
        """Store the values of an arm, or report why there are none."""
        self.open.remove(arm_run)
        name, failed = arm_run.experiment.name, None
        try:
            values, seconds = measured()
        except Exception as error:
            failed = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        if has_changed(arm_run.experiment, self.results[name].version):
            self._leave(name)
        elif failed is not None:
            self.say(f"     {name}: {arm_run.key} failed: {failed}")
        else:
            self._store(arm_run, values, seconds)

    def _store(self, arm_run: ArmRun, values: Values, seconds: float) -> None:
        name, results = arm_run.experiment.name, self.results[arm_run.experiment.name]
        self.done += 1
        self.took[name, arm_run.arm.name].append(seconds)
        results.add(arm_run.key, values, seconds)
        results.runs_here(arm_run.setting)
        results.save()
        self.say(f"{self.done:>4} of {self.total}   {name}: {arm_run.key}   {seconds:.1f} s{self._left()}")

    def _leave(self, name: str) -> None:
        """Run no more of an experiment whose code changed: its values would not be what its hash says."""
        if name not in self.changed:
            self.say(f"     {tell_changed(name)}")
        self.changed.add(name)

    def _left(self) -> str:
        """The time left, in words; nothing below a minute: nobody plans by that."""
        waiting = [arm_run for arm_run in self.open if arm_run.experiment.name not in self.changed]
        beside = self.expected([arm_run for arm_run in waiting if not arm_run.experiment.timing]) / self.workers
        seconds = beside + self.expected([arm_run for arm_run in waiting if arm_run.experiment.timing])
        return f"   {tell_time(seconds)} left" if seconds >= 60 else ""

    def expected(self, arm_runs: Sequence[ArmRun]) -> float:
        """Seconds for these, one after another: each as long as its arm took so far, or as an arm took on average."""
        usual = fmean(seconds for each in self.took.values() for seconds in each)
        return sum(fmean(self.took.get((arm_run.experiment.name, arm_run.arm.name), [usual])) for arm_run in arm_runs)


def tell_changed(name: str) -> str:
    return (f"{name}: its code changed during the run, so it has no verdict and what ran since is not kept: the same "
            "command measures it anew")


def tell_time(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"


# ------------------------------------------------------------------------------------------ carrying out


def _side_by_side(progress: Progress, plan: RunPlan) -> None:
    coming = progress.coming(timing=False)
    workers = min(progress.workers, sum(not arm_run.experiment.timing for arm_run in progress.open))
    if workers <= 1:
        for arm_run in coming:
            progress.keep(arm_run, partial(time_arm, arm_run.arm, arm_run.setting))
        return
    context = multiprocessing.get_context("spawn")
    gpus, places = list_gpus(plan.device), context.SimpleQueue()
    for number in range(workers):
        places.put(gpus[number % len(gpus)] if gpus else "")
    with ProcessPoolExecutor(workers, context, initializer=_take_place, initargs=(places,)) as pool:
        running: dict[Future[Any], ArmRun] = {}
        while True:
            while len(running) < workers and (new := next(coming, None)) is not None:
                running[_submitted(pool, new, plan.folder)] = new
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                progress.keep(running.pop(future), future.result)


def _submitted(pool: ProcessPoolExecutor, arm_run: ArmRun, folder: str | None) -> Future[Any]:
    try:
        return pool.submit(run_arm, arm_run.experiment.name, arm_run.arm.name, arm_run.setting, folder)
    except BrokenProcessPool:
        raise RunError("a process that measured was ended, perhaps for want of memory; what was measured is kept: the "
                       "same command goes on, with --workers 1 in less memory") from None


def _one_by_one(progress: Progress) -> None:
    alone = dict.fromkeys(arm_run.experiment.name for arm_run in progress.open if arm_run.experiment.timing)
    for number, arm_run in enumerate(progress.coming(timing=True)):
        if number == 0:
            progress.say(f"     these measure times, and run alone, one arm after another: {', '.join(alone)}")
        if (load := measure_others_load()) > BUSY:
            progress.say(f"     other work keeps {load:.1f} cores busy: the times of {arm_run.experiment.name} may be "
                         "off")
        progress.keep(arm_run, partial(time_arm, arm_run.arm, arm_run.setting))


def run_arm(experiment: str, arm: str, setting: Setting, folder: str | None) -> tuple[Values, float]:
    """Run one arm, in a process of its own."""
    arms = named(experiment, folder).arms
    return time_arm(next(each for each in arms if each.name == arm), setting)


def time_arm(arm: Arm, setting: Setting) -> tuple[Values, float]:
    """The values of an arm, and the seconds that it took."""
    torch.manual_seed(setting.seed)
    began = time.perf_counter()
    values = arm.run(setting)
    if not isinstance(values, dict):
        raise RunError(f"arm {arm.name} gave a {type(values).__name__}: give a dict of numbers")
    seconds = time.perf_counter() - began
    try:
        json.dumps(values)
    except TypeError as error:
        raise RunError(f"arm {arm.name}: {error}: give plain numbers, lists of them or strings") from None
    return values, seconds


def _take_place(places: SimpleQueue[str]) -> None:
    """Take a GPU for this process, where there are several, and one thread."""
    gpu = places.get()
    if gpu:
        os.environ[VISIBLE] = gpu
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def measure_others_load(pause: float = 0.25) -> float:
    """Cores kept busy by other processes just now; 0 where that cannot be known."""

    def busy() -> tuple[float, float]:
        with open("/proc/stat", encoding="utf-8") as file:
            numbers = [int(each) for each in file.readline().split()[1:9]]
        return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK"), time.process_time()

    try:
        (before, own), began = busy(), time.perf_counter()
        time.sleep(pause)
        (after, own_after), took = busy(), time.perf_counter() - began
    except OSError:
        return 0.0
    return max(0.0, ((after - before) - (own_after - own)) / took)
