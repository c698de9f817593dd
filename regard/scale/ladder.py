"""The runs of `regard scale`: a ladder of lengths, three sizes, three shares of the data, all with the same settings.

Every run has a fixed number of steps and a full schedule of its own: the loss in the middle of a long run, where the
learning rate is still high, is not the loss of a short run. `plan.json` holds all that a run needs, so that what was
interrupted goes on.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from regard.compare.plan import plain
from regard.config import as_values
from regard.errors import RunError, SettingError
from regard.families import Family
from regard.families.fit import fit_parameters, parameters
from regard.manifest import read_sealed, write_sealed
from regard.run_folder import RunFolder
from regard.tasks import task_named
from regard.trained import pick_device
from regard.training.choices import VALIDATION_SHARE, check_early, check_tables, choose, quickest_threads, time_steps
from regard.training.parts import Parts, build_model
from regard.training.report import TrainingProgress
from regard.training.request import TrainRequest, plan_new

FILE = "plan.json"
AXES = ("minutes", "size", "data")
LENGTHS = {8: 2, 4: 2, 2: 3, 1: 3}         # the longest run through so many: how many seeds
SIZES = (0.5, 2.0)                         # of the parameters, beside the model in the middle
SHARES = (0.25, 0.5, 1.0)                  # of the data
AHEAD = 10                                 # times more, which is what is predicted
JUDGED = 4                                 # validations of a run whose task judges what is written, which takes time
PROBED = 8                                 # steps of the run that times everything but steps
FEWEST = 8                                 # steps of the shortest run, at least
DEFAULT_MINUTES = 20.0
LONGEST_SHARE = 0.1                        # of all minutes, about, goes into the longest run
OF_LENGTH = ("steps", "tokens", "minutes", "lead", "plan", "epochs", "valid_every", "valid_one_in", "checkpoint_every",
             "log_every", "seed")          # settings of training that differ from run to run
CHOSEN = (*(("training", name) for name in ("steps", "tokens", "minutes", "epochs", "plan", "seed")),
          ("data", "train_share"))         # settings that are not the user's

Tables = dict[str, dict[str, Any]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class ScaleRequest:
    """The request of a user."""

    files: tuple[str, ...]
    task: str = "lm"
    family: str | None = None                          # None: the usual one, mixed with an n-gram where it can be
    mix: bool | None = None
    minutes: float | None = None                       # for everything, or
    steps: int | None = None                           # of the longest run
    params: int | None = None                          # of the model in the middle; None: chosen
    axes: tuple[str, ...] = AXES
    settings: Tables = field(default_factory=dict)
    device: str = "auto"
    out: str | None = None


@dataclass(frozen=True)
class Rung:
    """One run: how long, how large, on how much of the data, and its seed."""

    steps: int
    parameters: int
    share: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.steps}-steps-{self.parameters}-parameters-{self.share:g}-data-seed-{self.seed}"

    @property
    def label(self) -> str:
        of = "" if self.share == 1 else f", {self.share:g} of the data"
        return f"{self.steps:,} steps, {self.parameters:,} parameters{of}, seed {self.seed}"


@dataclass(frozen=True)
class ScalePlan:
    """Everything that a run needs: the request, the settings that all share, and the facts of the text."""

    request: dict[str, Any]
    steps: int                                         # of the longest run
    models: dict[str, dict[str, Any]]                  # the [model] table of each number of parameters
    parameters: int                                    # of the model in the middle
    training: dict[str, Any]                           # the [training] table, but for OF_LENGTH
    text: dict[str, Any]
    step_seconds: dict[str, float]                     # of each number of parameters; empty where none was timed

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(self.request["axes"])

    def rungs(self) -> list[Rung]:
        """Every run, the shortest first; those of several seeds take turns."""
        wanted = [Rung(max(1, self.steps // divisor), self.parameters, 1.0, seed)
                  for divisor, seeds in LENGTHS.items() for seed in range(seeds)]
        if "size" in self.axes:
            wanted += [Rung(self.steps, int(size), 1.0, 0) for size in self.models]
        if "data" in self.axes:
            wanted += [Rung(self.steps, self.parameters, share, 0) for share in SHARES]
        return sorted(set(wanted), key=lambda rung: (rung.steps, rung.seed, -rung.share, rung.parameters))

    def train_request(self, rung: Rung, out: Path) -> TrainRequest:
        """The request to train one run. Its settings are all given, so that nothing is chosen anew."""
        given, judged = self.request, task_named(self.request["task"]).judge is not None
        settings = {**given["settings"], "model": self.models[str(rung.parameters)],
                    "data": {**given["settings"].get("data", {}), "train_share": rung.share},
                    "training": {**self.training, "steps": rung.steps, "seed": rung.seed, "samples": False,
                                 "valid_every": max(1, rung.steps // JUDGED) if judged else 0}}
        return TrainRequest(tuple(given["files"]), task=given["task"], family=given["family"], mix=given["mix"],
                            out=str(out), settings=settings, device=given["device"], quiet=True, trust=True)

    def save(self, folder: Path) -> None:
        write_sealed(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> ScalePlan:
        try:
            values, whole = read_sealed(folder / FILE)
            if not whole:
                raise ValueError("it does not match its SHA-256")
            return cls(**values)
        except (ValueError, TypeError) as error:
            raise RunError(f"{folder / FILE} is damaged ({error}): choose another folder with --out") from None


# --------------------------------------------------------------------------------------------- planning


def check_request(request: ScaleRequest) -> Family:
    """Refuse what cannot be done on any data; return the family."""
    if request.minutes is not None and request.steps is not None:
        raise SettingError("--minutes and --steps: one budget; leave one of them out")
    if request.minutes is not None and not request.minutes > 0:
        raise SettingError(f"--minutes {request.minutes:g}: must be above 0")
    shortest = max(LENGTHS) * FEWEST
    if request.steps is not None and request.steps < shortest:
        raise SettingError(f"--steps {request.steps}: the longest run has at least {shortest}, so that the shortest "
                           f"has {FEWEST}")
    if not request.axes:
        raise SettingError(f"--axes: name at least one of {', '.join(AXES)}")
    for axis in request.axes:
        if axis not in AXES:
            raise SettingError(f"--axes {axis}: there is no such axis; name some of {', '.join(AXES)}")
    task = task_named(request.task)
    family = task.family(request.family or task.usual)
    if family.build is None:
        raise SettingError(f"--family {family.name}: it is counted, so minutes and size change nothing; choose another")
    check_tables(request.settings)
    for table, name in CHOSEN:
        if name in request.settings.get(table, {}):
            raise SettingError(f"{table}.{name}: `regard scale` chooses it for each run; leave it out")
    check_early(family, request.settings)
    return family


def make_plan(request: ScaleRequest, family: Family, corpus: Any, probe: Callable[[ScalePlan], float],
              began: float) -> ScalePlan:
    """Choose one model and its settings, and how many steps the minutes buy.

    Sizes are those for the minutes of the longest run; dropout and rates those for the run of ten times its steps,
    which is the one that is predicted. `probe(plan)` returns the seconds of a run that are not steps.
    """
    task, device = task_named(request.task), pick_device(request.device)
    vocab, minutes = task.vocab(corpus.tokenizer), request.minutes or DEFAULT_MINUTES
    for_minutes = {"training": {**request.settings.get("training", {}), "minutes": LONGEST_SHARE * minutes}}
    first = choose(family, corpus, {**request.settings, **for_minutes}, device, request.params, vocab)
    named = request.settings.get("model", {})
    middle = on_track(family, first.model, vocab, named) if "size" in request.axes else first.model
    fixed = {name: value for name, value in as_values(middle).items() if "dropout" not in name or name in named}
    text = {"content": corpus.content, "digest": corpus.tokenizer.digest(), **asdict(corpus.train.counts)}

    def settle(steps: int, seconds: dict[str, float], threads: int) -> ScalePlan:
        training = {**for_minutes["training"], "steps": AHEAD * steps}
        chosen = choose(family, corpus, {**request.settings, "model": fixed, "training": training}, device, None, vocab)
        shared = {name: value for name, value in as_values(chosen.training).items() if name not in OF_LENGTH}
        if threads:
            shared["threads"] = threads
        size = parameters(family, chosen.model, vocab)
        models = {str(size): chosen.model} | (
            other_sizes(family, chosen.model, vocab, size) if "size" in request.axes else {})
        return ScalePlan(comparable(request), steps, plain({size: as_values(each) for size, each in models.items()}),
                         size, plain(shared), text, seconds)

    if request.steps is not None:
        return settle(request.steps, {}, request.settings.get("training", {}).get("threads", 0))
    trial = settle(max(LENGTHS) * FEWEST, {}, 0)
    seconds, threads = time_sizes(trial)
    trial = replace(trial, step_seconds=seconds, training={**trial.training, "threads": threads})
    steps = affordable_steps(trial, 60 * minutes - (time.monotonic() - began), probe(trial), minutes)
    return settle(steps, seconds, threads)


def on_track(family: Family, model: Any, vocab: Any, named: Mapping[str, Any]) -> Any:
    """The model in the shape that its family has at any size, so that models of other sizes differ by size alone."""
    if family.resize is None:
        raise SettingError(f"--axes size: the {family.name} cannot be resized; give --axes minutes,data")
    before, resized = as_values(model), fit_parameters(family, model, vocab, parameters(family, model, vocab))
    for name in named:
        if before[name] != as_values(resized)[name]:
            raise SettingError(f"--axes size makes model.{name} = {as_values(resized)[name]}, not {before[name]}: "
                               "leave it out and give --params, or leave size out of --axes")
    return resized


def other_sizes(family: Family, model: Any, vocab: Any, middle: int) -> dict[str, Any]:
    """The model at the other sizes, by its number of parameters."""
    try:
        resized = [fit_parameters(family, model, vocab, round(ratio * middle)) for ratio in SIZES]
    except SettingError:
        raise SettingError(f"--axes size: no {family.name} has half or twice {middle:,} parameters; give more "
                           "--params, a smaller --vocab, or leave size out of --axes") from None
    return {str(parameters(family, each, vocab)): each for each in resized}


def comparable(request: ScaleRequest) -> dict[str, Any]:
    """The request as JSON gives it back, without the folder, which may be moved."""
    values = asdict(request)
    del values["out"]
    data = values["settings"].setdefault("data", {})
    data.setdefault("halve", True)                     # weights are chosen on one part of what is held out
    return dict(plain(values))


def time_sizes(plan: ScalePlan) -> tuple[dict[str, float], int]:
    """Return the seconds that a step of each size takes, and the quickest number of threads; 0 on a GPU."""
    seconds, threads = {}, 0
    for size in sorted(plan.models, key=lambda size: int(size) != plan.parameters):
        asked = plan.train_request(Rung(plan.steps, int(size), 1.0, 0), Path("unused"))
        planned = plan_new(asked, lambda text: None)
        with tempfile.TemporaryDirectory() as folder:
            run = RunFolder(Path(folder) / "run")
            run.begin()
            parts = Parts(planned, build_model(planned), run, TrainingProgress(True))
            found = time_steps(parts.make_step(planned.training), planned.training.micro_batch)
            if not threads and planned.device.type == "cpu":
                settled, found = quickest_threads(planned.training, planned.device, parts.make_step, found)
                threads = settled.threads or torch.get_num_threads()
            parts.report.close()
        seconds[size] = found
    return seconds, threads


def affordable_steps(plan: ScalePlan, left: float, overhead: float, minutes: float) -> int:
    """Return the steps of the longest run that the seconds left buy; each run costs its steps and an overhead."""
    rungs = plan.rungs()
    a_step = sum(rung.steps / plan.steps * plan.step_seconds[str(rung.parameters)] for rung in rungs)
    a_step /= 1 - VALIDATION_SHARE
    steps = int((left - overhead * len(rungs)) / a_step)
    shortest = max(LENGTHS) * FEWEST
    if steps < shortest:
        needed = (60 * minutes - left + overhead * len(rungs) + shortest * a_step) / 60
        raise SettingError(f"--minutes {minutes:g}: too little for {len(rungs)} runs on this data and machine; give "
                           f"--minutes {1.1 * needed:.2g} at least, or fewer --axes")
    return steps


def list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each part of the request that differs."""
    return [f"{name} {before.get(name)}, not {after.get(name)}" for name in after if before.get(name) != after[name]]
