"""From a user's request to a plan: a run with every setting resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from regard import storage
from regard.config import as_values, fill
from regard.data.reading.remote import refuse_addresses
from regard.data.reading.saved_datasets import spread_splits
from regard.data.workers import use_workers
from regard.errors import RunError, SettingError
from regard.families import Family
from regard.families.likes import settings_like
from regard.families.sizes import Tables, makes_few_steps
from regard.manifest import FORMAT
from regard.run_folder import RunFolder
from regard.tasks import USUAL, run_task, task_named
from regard.tasks.last_measure import LastMeasure
from regard.tasks.task import Task
from regard.trained import load, pick_device, run_family
from regard.training.choices import changed_settings, check_early, choose, measure_scale
from regard.training.settings import TrainingSettings
from regard.training.trackers import check_trackers

# What may be changed when a run is resumed; the rest would make it another run.
CHANGEABLE = ("steps", "plan", "lead", "learning_rate", "muon_rate", "clip", "valid_every", "checkpoint_every", "keep",
              "patience", "log_every", "micro_batch", "samples", "threads")
HALVE = "halve"                        # the setting of [data] that divides what is held out
Say = Callable[[str], None]


@dataclass(frozen=True)
class TrainRequest:
    """A run as the user asked for it, before anything is chosen."""

    files: tuple[str, ...]
    task: str = USUAL
    family: str | None = None              # None: the task's usual one, or what the run resumed or begun with is
    out: str | None = None
    settings: Tables | None = None         # tables of changed settings: {"training": {"batch": 8}}
    resume: bool = False
    start_over: bool = False               # with resume: from the first step where no checkpoint can be used
    base: str | None = None                # a run whose weights to begin with
    like: str | None = None                # the equations of a known model: "llama"
    params: int | None = None              # how many parameters the model shall have; None: chosen
    mix: bool | None = None                # with an n-gram of the same text; None: where no family is named
    device: str = "auto"
    trust: bool = False                    # import the code that a run resumed or begun with names
    tested: bool = True                    # measure the trained model on the test part, if there is one
    log: str | tuple[str, ...] = ()        # trackers that get each row of the log: "wandb", or "tensorboard,trackio"
    tensorboard: bool = False              # the same as one of them
    quiet: bool = False
    parallel: str = "auto"                 # of several ranks: data · buckets · fsdp · auto: parallel_choice.py
    workers: int | None = None             # processes that read a large text; None: one a core
    frames: Mapping[str, Any] = field(default_factory=dict)    # in the place of files, valid and test


@dataclass(frozen=True)
class TrainingPlan:
    """A run with everything resolved; of a new one the number of steps is settled when its first steps were timed."""

    request: TrainRequest
    task: Task
    family: Family
    data: Any                              # the settings of the data
    corpus: Any
    model: Any                             # the settings of the model
    training: TrainingSettings
    device: torch.device
    base: Any = None                       # the trained run whose weights to begin with
    why: str = ""                          # the model has this size and not the next
    ngram: Any = None                      # the settings of the n-gram that is mixed in; None: none is
    saved: dict[str, dict[str, Any]] | None = None         # of a resumed run: its tables
    changes: tuple[str, ...] = ()          # of a resumed run: a line for each setting that differs now

    @property
    def fitted(self) -> int:
        """The tokens that a mixture is fitted on, at most; 0: there is none."""
        return 0 if self.ngram is None or self.task.mixing is None else self.task.mixing.fitted

    @property
    def last_measure(self) -> LastMeasure | None:
        """The measurement of the trained model on the test part; None where there is none to make."""
        last = self.task.test if self.request.tested else None
        return last if last is not None and self.corpus.test is not None else None

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return every setting of the run: what run.toml holds."""
        training = {"training": as_values(self.training)}
        if self.saved is not None:
            return {**self.saved, **training}
        run = {"format": FORMAT, "task": self.task.name, "family": self.family.name, "from": self.request.base}
        mixed = {} if self.ngram is None else {"ngram": as_values(self.ngram)}
        return {"run": run, "data": as_values(self.corpus.resolved(self.data)),
                "tokenizer": as_values(self.corpus.tokenizer_settings), "model": as_values(self.model), **mixed,
                **training}


def plan_new(request: TrainRequest, say: Say) -> TrainingPlan:
    """Prepare the text and choose all that the user did not say."""
    wanted = request.settings or {}
    task = task_named(request.task)
    family, base = task.family(request.family or task.usual), None
    data = task.data_settings(request.files, hold_out(task, wanted.get("data", {})))
    tokens: Any = fill(task.tokenizer, wanted.get("tokenizer", {}), "tokenizer")
    if request.base is not None:
        base = load(request.base, device="cpu", trust=request.trust)
        family, tokens = task.family_after(base), base.tokenizer
        require_family(request, family.name, f"--from {request.base}")
        refuse_params(request, "--from")
        wanted = settings_from_base(base, family, wanted)
    check_early(family, wanted)
    ngram = choose_ngram(request, task, family, wanted)
    device = pick_device(request.device) if family.build is not None else torch.device("cpu")
    with use_workers(request.workers):
        corpus = task.prepare(data, tokens, say=say)
    scale = measure_scale(corpus, wanted, device, timed=family.build is not None)
    why = ""
    if may_hurry(request, task, wanted) and makes_few_steps(scale):
        family = task.family(task.card.hurried)
        why = f"{family.name}, as a {task.usual} would make too few steps to learn to attend; "
    chosen = choose(family, corpus, wanted, device, request.params, task.vocab(corpus.tokenizer), scale)
    return TrainingPlan(request, task, family, data, corpus, chosen.model, chosen.training, device, base,
                        why + chosen.why, ngram)


def may_hurry(request: TrainRequest, task: Task, wanted: Tables) -> bool:
    """Return whether another family may stand in for the usual one: the user said nothing that is meant for that."""
    free = request.family is None and request.base is None and request.params is None
    return bool(task.card.hurried) and free and not wanted.get("model")


def settle_request(request: TrainRequest) -> TrainRequest:
    """Return the request with what can be settled before anything is read; what cannot be is refused."""
    return replace(as_like(request), log=check_trackers(request.log, request.tensorboard))


def as_like(request: TrainRequest) -> TrainRequest:
    """Return the request with the family and the settings of the known model that it names, if it names one."""
    if request.like is None:
        return request
    if request.resume or request.base is not None:
        raise SettingError(f"--like {request.like}: a run that is gone on with has its settings; leave it out")
    family, settings = settings_like(request.like, request.task, request.family, request.settings or {})
    return replace(request, family=family, settings=settings, like=None)


def hold_out(task: Task, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the [data] table of a new run: what is held out is halved, unless the user says otherwise or names test
    files. A task that measures no test part needs all of it to choose by."""
    knows = task.test is not None and HALVE in {each.name for each in fields(task.data)}
    return {HALVE: True, **wanted} if knows and not wanted.get("test") else dict(wanted)


def choose_ngram(request: TrainRequest, task: Task, family: Family, wanted: Tables) -> Any:
    """Return the settings of the n-gram to mix in; None where none was asked for, and a family was named."""
    mix = request.mix if request.mix is not None else request.family is None
    possible = task.mixing is not None and family.build is not None
    if request.mix and not possible:
        raise SettingError(f"--mix: a {family.name} of the task {task.name} is not mixed with an n-gram; leave it out")
    if not (mix and possible):
        if "ngram" in wanted:
            raise SettingError("the table [ngram] is of a mixture: add --mix, or leave it out")
        return None
    assert task.mixing is not None
    return fill(task.mixing.settings, wanted.get("ngram", {}), "ngram")


def settings_from_base(base: Any, family: Family, wanted: Tables) -> Tables:
    """Keep the base's model and tokenizer when fine-tuning; only dropout may differ."""
    if base.learner is None:
        raise SettingError(f"--from {base.path}: a {base.family} is counted, not trained; train on both texts together")
    if wanted.get("tokenizer"):
        raise SettingError("--from keeps the run's tokenizer: leave --tokenizer and --vocab out")
    before = family.settings_of_run(base.tables["model"])
    after, _ = changed_settings(before, wanted.get("model", {}), "model", ("dropout", "attention_dropout"))
    rates = {name: base.tables["training"][name] / 3 for name in ("learning_rate", "muon_rate")}
    training = {**rates, "optimizer": base.tables["training"]["optimizer"], **wanted.get("training", {})}
    return {**wanted, "model": as_values(after), "training": training}


def plan_resumed(request: TrainRequest, folder: RunFolder, say: Say, other_text: str = "") -> TrainingPlan:
    """Go on with a run's settings, tokenizer and text; refuse changes that would make it another run.

    `other_text` is said of another text, where that has another reason than a change since the run began.
    """
    tables = folder.read_settings()
    task = run_task(tables)
    if task.name != request.task:
        raise RunError(f"{folder.path} is a run of the task {task.name}: go on with it by `regard train {task.name}`")
    family = run_family(tables, folder, request.trust)
    require_family(request, family.name, f"--resume {folder.path}")
    refuse_params(request, "--resume")
    if family.count is not None:
        raise RunError(f"{folder.path} was counted in one go: there is nothing to resume")
    wanted = request.settings or {}
    if request.mix is not None and request.mix != ("ngram" in tables):
        raise SettingError(f"--{'' if request.mix else 'no-'}mix: {folder.path} was begun "
                           f"{'with' if 'ngram' in tables else 'without'} an n-gram; leave it out")
    ngram = None
    if "ngram" in tables and task.mixing is not None:
        ngram, _ = changed_settings(fill(task.mixing.settings, tables["ngram"], "ngram"), wanted.get("ngram", {}),
                                    "ngram", ())
    data = resumed_data(request, tables, task)
    model, _ = changed_settings(family.settings_of_run(tables["model"]), wanted.get("model", {}), "model", ())
    asked = dict(wanted.get("training", {}))
    if "steps" in asked:
        asked = {"plan": (), "lead": 0.0, **asked}              # a number of steps that was given follows no clock
    training, changes = changed_settings(
        fill(TrainingSettings, tables["training"], "training"), asked, "training", CHANGEABLE)
    device = pick_device(request.device)
    folder.check_tokenizer()
    with use_workers(request.workers):
        corpus = task.prepare(data, task.load_tokenizer(folder.tokenizer_path), say=say)
    if data.content and corpus.content != data.content:
        raise RunError(other_text or f"the text has changed since {folder.path} began: resume with the same text, "
                       "or start a new run with --from")
    return TrainingPlan(request, task, family, data, corpus, model, training, device, saved=tables, ngram=ngram,
                        changes=tuple(changes))


def resumed_data(request: TrainRequest, tables: Tables, task: Task) -> Any:
    """Return the settings of the data, which may lie elsewhere now; its content is compared later."""
    wanted = request.settings or {}
    saved = {name: value for name, value in tables["data"].items() if name != "files"}
    splits = {name: files for name, files in spread_splits(request.files, {}).items()
              if same_names(saved.get(name), files)}
    before = task.data_settings(request.files, {**saved, **splits})
    moved = ("files", "valid", *(("test",) if getattr(before, "test", ()) else ()))
    after, _ = changed_settings(before, wanted.get("data", {}), "data", moved)
    named = {name for name in ("valid", "test") if name in wanted.get("data", {})}
    refuse_addresses([each for name in ("valid", "test") if name not in named for each in getattr(after, name, ())])
    kind = wanted.get("tokenizer", {}).get("kind", "auto")
    if kind not in ("auto", tables["tokenizer"]["kind"]):
        raise SettingError(f"tokenizer.kind cannot change from {tables['tokenizer']['kind']} to {kind} when a run is "
                           "resumed: leave it out, or start a new run")
    return after


def same_names(saved: Any, found: Sequence[str]) -> bool:
    """Return whether saved files are called as these, wherever they lay."""
    return isinstance(saved, list | tuple) and [Path(name).name for name in saved] == [
        Path(name).name for name in found]


def require_family(request: TrainRequest, name: str, what: str) -> None:
    if request.family is not None and request.family != name:
        raise SettingError(f"--family {request.family}: {what} goes on with a {name}; leave --family out")


def refuse_params(request: TrainRequest, flag: str) -> None:
    if request.params is not None:
        raise SettingError(f"--params {request.params:,}: {flag} goes on with a model that has its size; leave it out")


def refuse_taken(request: TrainRequest, folder: RunFolder) -> None:
    if folder.settings_path.exists() and not request.resume:
        raise RunError(f"{folder.path} already holds a run: go on with --resume, or choose another folder with --out")
    if remains := folder.remains():
        raise RunError(f"{folder.path} holds {', '.join(remains)} of a run, but its run.toml is lost: put that back "
                       "from a copy, or choose another folder with --out")


def claim_folder(request: TrainRequest) -> tuple[Path, list[Path]]:
    """Return the run's folder, and which folders were made now: two trainings that start together never get the same.

    Without --out it is runs/NAME-FAMILY (or NAME-TASK-FAMILY, or NAME-TASK where the family is chosen later), with a
    number behind it if taken; the newest of them when resuming.
    """
    if request.out is not None:
        return Path(request.out), storage.claim_folder(Path(request.out))
    card = task_named(request.task).card
    family = (request.family or card.usual).rpartition(":")[2]          # Layer of module:Layer
    later = card.hurried and request.family is None
    name = card.name if later else card.run_name.format(task=card.name, family=family)
    stem = Path(request.files[0]).name.split(".")[0] if request.files and request.files[0] != "-" else "text"
    stem = stem.strip("*?[]")                                # of a pattern at an address
    numbers = ("", *(f"-{n}" for n in range(2, 10_000)))
    names = [Path("runs") / f"{stem or 'text'}-{name}{number}" for number in numbers]
    existing = [name for name in names if name.exists()]
    if request.resume and existing:
        return existing[-1], []
    return next((name, made) for name in names if (made := storage.claim_folder(name)))


def describe_choice(plan: TrainingPlan, say: Callable[[str], None]) -> None:
    """Say why this size was chosen, and which family came next where nobody chose one."""
    if plan.why:
        say(f"           {plan.why}")
    usual = plan.request.family is None and plan.base is None and plan.family.name == plan.task.usual
    if usual and plan.task.card.runner_up and plan.device.type == "cpu":
        say(f"           the usual family; next came {plan.task.card.runner_up} (--family)")
