"""Lives of a run: it is trained in a fork of this process, which may be killed, and then in another, until it is done.

A fork after all imports costs a twentieth of a second; what a fork trains is as large as the runs in tests/fixtures.
"""

import gc
import hashlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from tests.soak.disk import Call, watch_disk

EXACT = ("training.safetensors", "model.safetensors")        # of a checkpoint; the rest of it holds seconds
KEPT = 2                                 # checkpoints, unless training.keep says otherwise
LONGEST = float(os.environ.get("REGARD_SOAK_LONGEST", 60))     # seconds of a life by the clock
CLOCKED = ("seconds", "took", "rank_tokens_per_second")
SMALL = dict(layers=1, width=16, heads=2, context=16)
STEPS = dict(steps=6, valid_every=4, checkpoint_every=2, threads=1)


@dataclass(frozen=True)
class Variant:
    """What is trained: a task and a family on the texts of tests/fixtures, with settings."""

    name: str
    task: str
    family: str
    settings: dict
    device: str = "cpu"

    @property
    def files(self) -> tuple[str, ...]:
        from tests.fixtures.runs import FILES, HERE

        return tuple(str(HERE / "data" / each) for each in FILES[self.task])


FIRST = (                                                    # in CI: what differs most in what a checkpoint has to hold
    Variant("transformer", "lm", "transformer", {
        "model": dict(SMALL, dropout=0.2), "tokenizer": dict(kind="char"),
        "training": dict(STEPS, batch=4, optimizer="muon", ema=0.9)}),
    Variant("rnn in streams", "lm", "rnn", {
        "model": dict(width=8, hidden=12, context=8), "tokenizer": dict(kind="char"),
        "training": dict(STEPS, batch=4, reading="streams", checkpoint_every=3)}),
    Variant("translator, accumulated", "translate", "rnn-attention", {
        "model": dict(width=8, hidden=12, context=16, dropout=0.1), "tokenizer": dict(kind="word"),
        "training": dict(STEPS, batch=40, micro_batch=2)}))


def every_variant() -> list[Variant]:
    """All families and tasks that fixtures know, by turns with accumulation, averages, other optimizers, other steps of
    checkpoints in the middle of an epoch, and two threads."""
    from tests.fixtures.make import family_of
    from tests.fixtures.runs import TASKS

    found = []
    for task, table in TASKS.items():
        for name, model in table.items():
            at = len(found)
            counted = name.startswith("ngram")
            training = dict(STEPS, batch=8 if task in ("lm", "masked", "classify", "tag") else 64,
                            checkpoint_every=1 + at % 4, threads=1 + at % 2, ema=0.9 * (at % 3 == 0),
                            optimizer=("adamw", "muon", "sgd")[at // 2 % 3], micro_batch=3 * (at % 5 == 0))
            found.append(Variant(f"{task}-{name}", task, family_of(task, name), {
                "model": model if counted else {**model, "dropout": 0.1}, "training": {} if counted else training,
                "tokenizer": {"kind": "word", **({"shared": False} if "separate" in name else {})},
                "data": {"size": model["image"]} if task == "caption" else {}}))
    return found


def warm_up() -> None:
    """Import and build, once, what every life would import and build anew."""
    import numpy.ctypeslib
    import numpy.ma
    import safetensors.torch
    import torch
    import torch._dynamo

    from regard.kernels.cpu import native
    from regard.tasks import TASKS
    from regard.training.run import run_training
    from tests.fixtures import runs

    with suppress(ModuleNotFoundError):                      # a machine that only lends a GPU may lack it
        import_module("sacrebleu.tokenizers.tokenizer_13a")
    assert numpy.ctypeslib and numpy.ma and safetensors.torch and torch._dynamo and run_training and runs
    gc.freeze()                                              # collecting would copy the pages that a fork shares
    native.why_not()
    for task in TASKS:
        assert TASKS[task].name == task


def steady() -> None:
    """In a fork: one thread, nothing by the clock, and no wait for the disk, whose syncs no killed process needs."""
    import torch

    from regard.tasks.lm import sample
    from regard.training.report import SampleLog

    gc.disable()
    torch.set_num_threads(1)
    os.fsync = os.fstat
    sample.NEW = 3                                           # tokens
    SampleLog.due = lambda self, seconds: True


def train(variant: Variant, out: Path, resume: bool = True) -> None:
    from regard.training.run import TrainRequest, run_together

    run_together(TrainRequest(variant.files, task=variant.task, family=variant.family, settings=variant.settings,
                              out=str(out), resume=resume, quiet=True, device=variant.device))


@dataclass
class Ended:
    """How a process ended: `done`, `killed`, `refused` with a line, or `broken` with a traceback; and what it noted."""

    how: str
    line: str = ""
    noted: object = None


def run_apart(act: Callable[[], object], seconds: float | None = None) -> Ended:
    """Return how an act ended in a fork; `act` returns what is to be noted."""
    read, out = os.pipe()
    child = os.fork()
    if child == 0:
        try:                                                 # whatever happens, the fork goes no further than this
            os.close(read)
            signal.alarm(int(seconds or LONGEST))
            told = json.dumps(act_of(act))
            with os.fdopen(out, "w") as file:
                file.write(told)
        finally:
            os._exit(0)
    os.close(out)
    with os.fdopen(read) as file:
        raw = file.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Ended("killed") if number == signal.SIGKILL else Ended("broken", f"ended by signal {number}")
    return Ended(*json.loads(raw)) if raw else Ended("broken", "it told nothing")


def act_of(act: Callable[[], object]) -> tuple[str, str, object]:
    from regard.errors import RegardError

    steady()
    try:
        return "done", "", act()
    except RegardError as error:
        return "refused", str(error), None
    except BaseException:
        return "broken", " | ".join(traceback.format_exc().splitlines()[-14:]), None


# --------------------------------------------------------------------------------------------- counted calls


class Points:
    """Counts the calls on the disk and the steps of a life; a write is two points, before it and in the middle."""

    def __init__(self, act: Callable[["Points", Call], None] | None = None):
        self.count, self.act, self.acting = 0, act, False

    def __call__(self, call: Call) -> None:
        if self.acting:                                      # what `act` itself does
            return
        self.acting = True
        try:
            self.see(call)
        finally:
            self.acting = False

    def see(self, call: Call) -> None:
        self.count += 1
        if self.act is not None:
            self.act(self, call)
        if call.kind == "write":
            self.count += 1
            if self.act is not None:
                self.act(self, Call("torn write", call.path, call.part, call.at))


def kill_at(point: int) -> Callable[[Points, Call], None]:
    def act(points: Points, call: Call) -> None:
        if points.count == point:
            if call.kind == "torn write":
                with open(call.path, "r+b") as file:         # half of it is there, as a reader would find it
                    file.seek(call.at)
                    file.write(call.part[:len(call.part) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
    return act


def watched_life(variant: Variant, out: Path, before: Callable[[Call], None], resume: bool = True) -> object:
    """Train in this process, each call on the disk and each step shown to `before` first."""
    from unittest.mock import patch

    from regard.training import step

    os.environ["REGARD_CACHE"] = f"{out}.cache"              # its own, so that what happens to it counts, too
    backward, update = step.TrainingStep.backward, step.update_weights

    def at_step(self, *given):
        before(Call("step", ""))
        return backward(self, *given)

    def at_update(*given):
        before(Call("update", ""))
        update(*given)
        before(Call("updated", ""))

    with (patch.object(step.TrainingStep, "backward", at_step), patch.object(step, "update_weights", at_update),
          watch_disk([out.parent], before)):
        train(variant, out, resume)
    return getattr(before, "count", None)


def live(variant: Variant, out: Path, point: int | None = None) -> Ended:
    """One life of a run, killed at a point if one is given; it notes how many points it had."""
    points = Points(None if point is None else kill_at(point))
    return run_apart(partial(watched_life, variant, out, points))


# --------------------------------------------------------------------------------------------- what must be equal


def outcome(out: Path) -> dict[str, object]:
    """Everything of a run that must be equal, bit by bit: all but what the clock wrote."""
    found: dict[str, object] = {}
    kept = sorted((out / "checkpoints").glob("[0-9]*"))[-KEPT:]      # one more is left where rotating was cut short
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.is_dir() or (path.parent.parent.name == "checkpoints" and path.parent not in kept):
            continue
        if path.name in ("metrics.jsonl", "samples.jsonl"):
            found[name] = [without_clock(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.parent.parent.name == "checkpoints":
            if path.name in EXACT:
                found[name] = hash_of(path)
            elif path.name == "at.json":
                found[name] = without_clock(json.loads(path.read_text()))
        elif path.name == "test.json":
            found[name] = without_clock(json.loads(path.read_text()))
        else:
            found[name] = hash_of(path)
    return found


def without_clock(row: dict) -> dict:
    return {name: value for name, value in row.items() if name not in CLOCKED}


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def difference(found: dict, expected: dict) -> str:
    """Return the names of what differs; nothing if all is equal."""
    return ", ".join(sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name)))


class Undisturbed:
    """Runs that nothing happened to, one for each variant, made when they are first asked for."""

    def __init__(self, folder: Path):
        self.folder, self.known = folder, dict[str, tuple[int, dict]]()

    def __call__(self, variant: Variant) -> tuple[int, dict]:
        """The points of its life, and its outcome."""
        if variant.name not in self.known:
            out = self.folder / variant.name.replace(" ", "-").replace(",", "")
            ended = live(variant, out)
            assert ended.how == "done", f"{variant.name}: {ended}"
            self.known[variant.name] = (int(str(ended.noted)), outcome(out))
        return self.known[variant.name]


def forget(*folders: Path) -> None:
    for each in folders:
        shutil.rmtree(each, ignore_errors=True)


def timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


assert sys.platform != "win32", "forks are POSIX's"
