"""Checkpoints: everything that a run needs to go on as if it had never stopped.

Weights, optimisers, averaged weights, carried state, generators and position are the state of training. A checkpoint
also holds the hashes of the logs, and the conditions that decide the last bits of a run: sums in another order round
otherwise. A resumed run uses the same number of threads, and says which other conditions differ.

Compiled code adds up the gradients of embeddings on all threads at once, in no fixed order. torch's deterministic mode
fixes the order, so that two runs are equal there, too.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard import storage
from regard.config import fill, shown
from regard.contract import Learner
from regard.errors import RunError, TrainingStopped
from regard.families.outline import check_outline
from regard.kernels.cpu.onednn import cpu, cpu_name
from regard.plain_files import parse_json
from regard.ranks import ALONE, Ranks
from regard.run_folder import CHECKPOINTS, DAMAGED, RunFolder, find_extreme, pack, unpack
from regard.training.deterministic import STRICT, kept_algorithms, set_deterministic
from regard.training.memory import out_of_memory
from regard.training.report import TrainingReport
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingPosition, TrainingStep

if TYPE_CHECKING:
    from regard.training.request import TrainingPlan

QUICK = 0.2                    # seconds that a checkpoint may take at every validation
SAVING_SHARE = 0.1             # of the time, for checkpoints that take longer


class Checkpoints:
    """The checkpoints of a run, written and read."""

    def __init__(self, folder: RunFolder, step: TrainingStep, report: TrainingReport, keep: int):
        self.folder, self.step, self.report, self.keep = folder, step, report, keep
        self.saved, self.took = 0.0, 0.0       # when the last one was made, and in how many seconds

    dealt = False                      # over ranks, each of which has rows of its own

    def beginnings(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the weights, and all else of training, as rank 0 has them before the first step."""
        return self.step.model.saved_tensors(), self.tensors()

    def worthwhile(self) -> bool:
        """Return whether another would take little of the time since the last one; a quick one always is."""
        return self.took < QUICK or time.monotonic() - self.saved > self.took / SAVING_SHARE

    def save(self, position: TrainingPosition) -> None:
        """Write a checkpoint; of several ranks the first does, once all have told it what only they know."""
        self.step.ranks.require_equal(list(self.step.model.parameters()))
        tensors = self.tensors()
        if self.step.ranks.first:
            self.write(position, self.step.model.saved_tensors(), tensors)

    def write(self, position: TrainingPosition, weights: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
        began = time.monotonic()
        refuse_spoilt(position, find_spoilt(weights, tensors))
        files = {
            "model.safetensors": pack(weights),
            "training.safetensors": pack(tensors),
            "at.json": json.dumps(asdict(position)).encode(),
            "session.json": json.dumps(self.session()).encode(),
        }
        for name in self.folder.save_checkpoint(position.step, files, self.keep):
            self.report.say(f"checkpoint {name} is damaged: set aside")
        self.saved = time.monotonic()
        self.took = self.saved - began

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of training beside the weights: the same whatever the number of ranks."""
        step = self.step
        tensors = {f"random/{name}": state for name, state in random_states(step.model.device).items()}
        tensors |= {f"optimizer/{name}": value for name, value in step.optimizers.tensors().items()}
        if step.average is not None:
            tensors |= {f"average/{name}": value for name, value in step.average.weights.items()}
        if step.carried is not None:
            carried = step.ranks.gather_rows(step.carried.tensors())
            tensors |= {f"carried/{name}": value for name, value in carried.items()}
        return tensors

    def session(self) -> dict[str, Any]:
        """Sync the logs; return their hashes and the conditions."""
        logs = (self.report.metrics, self.report.samples)
        for log in logs:
            log.sync()
        return {"conditions": asdict(current_conditions(self.step.model, self.step.ranks)),
                "logs": {log.path.name: log.state() for log in logs}}

    def restore(self, files: dict[str, bytes]) -> TrainingPosition:
        """Load a checkpoint into the training step; return the position it was made at."""
        with holding_what_is_needed():
            weights, tensors = saved_state(self.folder, files)
            if wrong := find_spoilt(weights, tensors):
                raise ValueError(wrong)
            self.load(weights, tensors)
            return fill(TrainingPosition, parse_json(files["at.json"]), "at.json")

    def load(self, weights: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
        """Load weights, and what `tensors` gave, into the training step."""
        step, tables = self.step, dict[str, dict[str, Tensor]]()
        step.model.load_tensors(weights)
        for path, value in tensors.items():
            table, name = path.split("/", 1)
            tables.setdefault(table, {})[name] = value
        step.optimizers.load(tables.get("optimizer", {}))
        step.record_updates()                                  # a recording knows the tensors from before
        if step.average is not None:
            step.average.load(tables["average"])
        if "carried" in tables:
            carried = {name: step.ranks.own_rows(value) for name, value in tables["carried"].items()}
            step.carried = load_state(step.model, carried)
        set_random_states(tables["random"], step.model.device)

    def check_logs(self, session: dict[str, Any], position: TrainingPosition) -> None:
        """Cut the logs back to the position; say what of them was changed or damaged since the checkpoint."""
        for log in (self.report.metrics, self.report.samples):
            before = session.get("logs", {}).get(log.path.name, {"bytes": 0, "sha256": storage.digest(b"")})
            if not log.unchanged(before):
                self.report.say(f"{log.path.name} was changed or damaged before step {position.step:,}")
            if damaged := log.cut(position.step):
                self.report.say(f"{damaged:,} line{'s' * (damaged > 1)} of {log.path.name} could not be read, and left "
                                "out")

    def mend_weights(self, position: TrainingPosition) -> TrainingPosition:
        """Replace damaged or lost best weights by those at hand, which then count as no best any more."""
        if math.isinf(position.best):                            # no validation yet
            return position
        try:
            self.folder.read_weights()
            return position
        except RunError as error:
            self.report.say(f"{error.args[0].split(':')[0]}: the weights of step {position.step:,} take their place "
                            "until better ones come")
        self.keep_weights()
        return replace(position, best=math.inf)

    def keep_weights(self) -> None:
        """Write the weights, averaged where they are averaged, as the best of the run."""
        if not self.step.ranks.first:
            return
        with self.step.averaged_weights():
            weights = self.step.model.saved_tensors()
            if wrong := find_extreme(weights):
                raise TrainingStopped(f"{wrong}: {self.folder.weights_path} is left as it was; go on from the last "
                                      "checkpoint with --resume and a lower --rate")
            self.folder.save_weights(weights)


def newest_good(folder: RunFolder, start_over: bool, say: Callable[[str], None]) -> dict[str, bytes] | None:
    """Return the files of the newest whole checkpoint and set damaged ones aside. None: training had made none yet."""
    files, damaged = folder.newest_checkpoint()
    for name in damaged:
        folder.set_aside(folder.checkpoints_path / name)
        say(f"checkpoint {name} is damaged: passed over, and set aside as {CHECKPOINTS}/{DAMAGED}{name}")
    if files is None and folder.had_checkpoints() and not start_over:
        raise RunError(f"{folder.path} has no checkpoint that can be used: begin a new run with its best weights by "
                       f"--from {folder.path} --out FOLDER, or train it from the first step, over these weights, with "
                       "--resume --start-over")
    return files


def read_session(files: dict[str, bytes] | None) -> dict[str, Any]:
    """Return what a checkpoint keeps of the process that made it; one of an earlier version keeps nothing."""
    if files is None:
        return {}
    with holding_what_is_needed():
        session = parse_json(files.get("session.json", b"{}"))
        conditions = session.get("conditions")
        if conditions is not None:
            int(conditions["threads"])
        for log in session.get("logs", {}).values():
            int(log["bytes"]), str(log["sha256"])
        return dict(session)


def saved_state(folder: RunFolder, files: dict[str, bytes]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights that a checkpoint keeps, and all else of training, each tensor whole."""
    with holding_what_is_needed():
        tensors = unpack(files["training.safetensors"], "the checkpoint's training.safetensors")
        if "model.safetensors" in files:
            return unpack(files["model.safetensors"], "the checkpoint's model.safetensors"), tensors
        from regard.training.sharded_checkpoint import read_whole

        tensors |= read_whole(shares_path(folder, files))
        return split_weights(tensors)


def split_weights(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights, which stand under `weights/NAME`, and all else."""
    weights = {path.removeprefix("weights/"): each for path, each in tensors.items() if path.startswith("weights/")}
    return weights, {path: each for path, each in tensors.items() if not path.startswith("weights/")}


def shares_path(folder: RunFolder, files: dict[str, bytes]) -> Path:
    """Return the folder of a checkpoint that ranks have written together."""
    return folder.checkpoint_path(int(parse_json(files["at.json"])["step"]))


def check_saved(plan: TrainingPlan, folder: RunFolder, files: dict[str, bytes] | None) -> None:
    """Refuse settings whose model a checkpoint's weights do not fill, before it is built and takes memory."""
    if files is None:
        return
    with holding_what_is_needed():
        if "model.safetensors" in files:
            weights = unpack(files["model.safetensors"], "the checkpoint's model.safetensors")
        else:
            from regard.training.sharded_checkpoint import read_outline

            small = unpack(files["training.safetensors"], "the checkpoint's training.safetensors")
            weights, _ = split_weights({**small, **read_outline(shares_path(folder, files))})
    check_outline(plan.family, plan.model, plan.task.vocab(plan.corpus.tokenizer), weights)


@contextmanager
def holding_what_is_needed() -> Iterator[None]:
    """A checkpoint whose files match their hashes may still hold other things than training put there: in one line."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError, RuntimeError) as error:
        if out_of_memory(error):
            raise
        raise RunError(f"the newest checkpoint does not hold what training needs ({type(error).__name__}: "
                       f"{shown(str(error))}): remove it from {CHECKPOINTS}, or take the run from a copy") from error


def find_spoilt(weights: dict[str, Tensor], tensors: dict[str, Tensor]) -> str:
    """Name a weight, or what an optimizer or the average keeps of it, that is not finite; "" where none is."""
    kept = {name: each for name, each in tensors.items() if name.startswith(("optimizer/", "average/"))}
    return find_extreme(weights) or find_extreme(kept, sys.float_info.max)


def refuse_spoilt(position: TrainingPosition, wrong: str) -> None:
    """Stop the training before it is saved, if something is wrong with it."""
    if wrong:
        raise TrainingStopped(f"{wrong} at step {position.step:,}; nothing of it is saved and the last checkpoint is "
                              "good: go on with --resume and a lower --rate")


def load_state(model: Learner, tensors: dict[str, Tensor]) -> Any:
    """Return the model's state made of saved tensors."""
    state = model.start(len(next(iter(tensors.values()))), 1)
    assert state is not None
    values = iter([tensors[name].to(model.device) for name in state.tensors()])
    return state.map(lambda _: next(values))


def random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


# -------------------------------------------------------------------------------------------- conditions


@dataclass(frozen=True)
class Conditions:
    """All that decides the last bits of a run beside its settings, text and seed."""

    device: str
    threads: int                       # of a CPU
    processor: str                     # the CPU's or the GPU's name: kernels differ
    torch: str                         # its version, with the build
    ranks: int = 1                     # processes, whose gradients are added up


@contextmanager
def kept_conditions() -> Iterator[None]:
    """Put back afterwards what `set_conditions` changes of the whole process."""
    threads = torch.get_num_threads()
    try:
        with kept_algorithms():
            yield
    finally:
        torch.set_num_threads(threads)


def set_conditions(s: TrainingSettings, model: Learner, say: Callable[[str], None]) -> None:
    torch.set_flush_denormal(True)                  # denormal numbers cost a CPU many times over
    set_deterministic(s, model.device, say)
    if model.device.type != "cpu":
        return
    if s.threads:
        torch.set_num_threads(s.threads)
    if s.compile in ("yes", "graphs"):
        torch.use_deterministic_algorithms(True)
        STRICT.fill_uninitialized_memory = False             # or all new memory is written twice


def current_conditions(model: Learner, ranks: Ranks = ALONE) -> Conditions:
    device = model.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(cpu())
    return Conditions(device.type, torch.get_num_threads() if device.type == "cpu" else 0, name, torch.__version__,
                      ranks.count)


def changed_conditions(before: dict[str, Any] | None, now: Conditions) -> list[str]:
    """Return a line for each difference; a checkpoint from before they were kept says nothing of them."""
    if before is None:
        return ["threads, processor and torch are not known: the checkpoint is of an earlier version"]
    before = {"ranks": 1, **before}                            # of an earlier version: one process
    before["processor"] = cpu_name(str(before.get("processor", "unknown")))         # which kept all that it said
    return [f"{name} {value}, was {before.get(name, 'unknown')}" for name, value in asdict(now).items()
            if before.get(name) != value]
