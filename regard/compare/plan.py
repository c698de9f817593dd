"""The plan of a comparison: families, sizes, seeds and one budget, settled before anything is trained.

`compare.json` holds the plan. It says all that a trial needs, so that each can run in a process of its own and a
comparison can resume later. Families, seeds and orders may be added to it; anything else would make it another one.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from regard.config import as_values, fill
from regard.errors import RunError, SettingError, note
from regard.families import Family
from regard.families.fit import parameters
from regard.manifest import read_sealed, write_sealed
from regard.run_lock import LOCK
from regard.tasks import task_named
from regard.trained import pick_device
from regard.training.choices import choose
from regard.training.request import HALVE
from regard.training.run import TrainRequest
from regard.training.settings import TrainingSettings

ORDERS = (2, 3, 4, 5, 6, 7)
DEFAULT_MINUTES = 2.0
SHARED = ("data", "tokenizer", "training", "model")
FILE = "compare.json"

Tables = dict[str, dict[str, Any]]
Record = dict[str, Any]                  # what was measured of one trial
Row = dict[str, Any]                     # of the results table: one family


@dataclass(frozen=True)
class Wanted:
    """The comparison that the user asked for."""

    files: tuple[str, ...]
    families: tuple[str, ...] = ()                     # none: all there are
    seeds: int = 3
    params: int | None = None                          # of each neural family; None: its own default sizes
    minutes: float | None = None                       # the budget of each trial: one of these three
    tokens: int | None = None
    steps: int | None = None
    orders: tuple[int, ...] = ORDERS                   # of the n-gram
    settings: Tables = field(default_factory=dict)     # data, tokenizer, training, model; or the name of a family
    device: str = "auto"
    out: str | None = None
    task: str = "lm"
    halve: bool = True                                 # held-out data without a test part: choose on one half only

    @property
    def folder(self) -> Path:
        return output_folder(self.files, self.out, "compare/{}", FILE, "comparison")


@dataclass(frozen=True)
class Entry:
    """A family in the comparison, at the size it will have."""

    family: str
    about: str
    counted: bool                                      # at once, like an n-gram; else trained by gradients
    parameters: int | None                             # None where only counting will tell
    model: dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One model to be trained and measured."""

    family: str
    seed: int | None = None                            # of a family that is trained,
    order: int | None = None                           # or the order of one that is counted

    @property
    def name(self) -> str:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", self.family).strip("-")
        return f"{slug}-{self.seed}" if self.order is None else f"{slug}-order{self.order}"

    @property
    def label(self) -> str:
        return f"{self.family}, seed {self.seed}" if self.order is None else f"{self.family} of order {self.order}"


@dataclass(frozen=True)
class ComparisonPlan:
    """Everything that a trial needs: the request, the facts of the text, and each family at its size."""

    files: tuple[str, ...]
    budget: dict[str, float]                           # {"minutes": 2}, {"tokens": n} or {"steps": n}
    params: int | None
    seeds: int
    orders: tuple[int, ...]
    settings: Tables
    device: str
    text: dict[str, Any]                               # facts about the corpus
    entries: tuple[Entry, ...]
    task: str = "lm"

    def trials(self) -> list[Trial]:
        """All trials in order. Families that are counted come first: they are the line to cross. Then seed by seed: any
        noise falls on all families."""
        counted = [Trial(e.family, order=n) for e in self.entries if e.counted for n in self.orders]
        trained = [Trial(e.family, seed=seed) for seed in range(self.seeds) for e in self.entries if not e.counted]
        return counted + trained

    def request(self, trial: Trial, out: Path) -> TrainRequest:
        """The request to train one trial."""
        tables = family_tables(task_named(self.task).family(trial.family), self.settings, self.budget)
        tables["data"].setdefault(HALVE, False)              # as the plan has it, where it is silent
        if trial.order is not None:
            tables["model"]["order"] = trial.order
        else:
            tables["training"]["seed"] = trial.seed
        params = self.params if trial.order is None else None
        return TrainRequest(self.files, task=self.task, family=trial.family, out=str(out), settings=tables,
                            params=params, device=self.device, quiet=True,
                            tested=False,     # the comparison measures its models itself, and more of them
                            trust=True)       # the user named the family: its code is trusted

    def show_budget(self) -> str:
        """2 min; 150,000 tokens."""
        kind, value = next(iter(self.budget.items()))
        return f"{value:g} min" if kind == "minutes" else f"{value:,} {kind}"

    def seconds(self) -> float | None:
        """The time that all of it will take, if the budget says so."""
        if "minutes" not in self.budget:
            return None
        return sum(self.budget["minutes"] * 60 + 15 if t.order is None else 6 for t in self.trials())

    def command(self, out: str) -> str:
        """The command that makes this comparison."""
        words = ["regard", "compare", self.task, *self.files, "--families", ",".join(e.family for e in self.entries)]
        if self.params is not None:
            words += ["--params", str(self.params)]
        name, value = next(iter(self.budget.items()))
        words += [f"--{name}", f"{value:g}" if name == "minutes" else str(value), "--seeds", str(self.seeds)]
        if any(entry.counted for entry in self.entries):
            words += ["--orders", ",".join(map(str, self.orders))]
        words += ["--device", self.device]
        for table, values in self.settings.items():
            for key, value in values.items():
                if (table, key, value) == ("data", HALVE, True):
                    continue                                         # the command does so by itself
                text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
                words += ["--set", f"{table}.{key}={text}"]
        return shlex.join([*words, "--out", out])

    # -------------------------------------------------------------------------------------- keeping

    def save(self, folder: Path) -> None:
        write_sealed(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> ComparisonPlan:
        try:
            values, whole = read_sealed(folder / FILE)
            values["entries"] = tuple(Entry(**entry) for entry in values["entries"])
            values["files"], values["orders"] = tuple(values["files"]), tuple(values["orders"])
            plan = cls(**values)
        except FileNotFoundError:
            raise RunError(f"there is no comparison at {folder}: make one with `regard compare lm` or `regard compare "
                           "translate`, or check the path") from None
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{folder / FILE} is damaged ({error}): choose another folder with --out") from None
        if not whole:
            note(f"{folder / FILE} was changed since it was written: it is used as it is now")
        return plan

    def joined(self, new: ComparisonPlan, folder: Path) -> ComparisonPlan:
        """This plan with the families, seeds and orders of another one added; refused where they differ otherwise."""
        for name, before, after in list_changes(self, new):
            raise SettingError(f"{folder} holds a comparison with {name} {before}, not {after}: use the same settings "
                               "to go on with it, or another folder with --out")
        known = {entry.family for entry in self.entries}
        entries = (*self.entries, *(entry for entry in new.entries if entry.family not in known))
        orders = tuple(sorted({*self.orders, *new.orders}))
        return replace(new, entries=entries, orders=orders, seeds=max(self.seeds, new.seeds),
                       settings={**self.settings, **new.settings})


def output_folder(files: tuple[str, ...], out: str | None, default: str, begun: str, what: str) -> Path:
    """The folder `out`, or the default one for the name of the data; refused if it holds anything but `what`."""
    folder = Path(out or default.format(Path(files[0]).name.split(".")[0] or "text"))
    if not (folder / begun).exists() and folder.exists() and any(path.name != LOCK for path in folder.iterdir()):
        raise RunError(f"{folder} holds something that is no {what}: choose another folder with --out")
    return folder


def make_plan(wanted: Wanted, say: Any = lambda text: None) -> ComparisonPlan:
    """Read the text and settle the size of each family. Whatever cannot be compared is refused here."""
    budget = one_budget(wanted)
    if wanted.seeds < 1:
        raise SettingError(f"--seeds {wanted.seeds}: must be at least 1")
    task = task_named(wanted.task)
    kinds = [task.family(name) for name in chosen_families(wanted.task, wanted.families)]
    settings = checked_settings(wanted.settings, kinds)
    if wanted.halve:
        settings.setdefault("data", {}).setdefault(HALVE, True)
    data = task.data_settings(wanted.files, settings.get("data", {}))
    tokenizer = fill(task.tokenizer, settings.get("tokenizer", {}), "tokenizer")
    device = pick_device(wanted.device)
    for kind in kinds:
        fill(TrainingSettings, family_tables(kind, settings, budget)["training"], "training")     # before a long read
    corpus = task.prepare(data, tokenizer, say=say)
    entries = tuple(make_entry(kind, corpus, wanted, family_tables(kind, settings, budget), device) for kind in kinds)
    plan = ComparisonPlan(wanted.files, budget, wanted.params, wanted.seeds, wanted.orders, plain(settings),
                          wanted.device, describe_corpus(corpus, data), entries, wanted.task)
    names = [trial.name for trial in plan.trials()]
    if len(set(names)) < len(names):
        raise SettingError(f"--families {','.join(wanted.families)}: two of them would share a folder; rename one")
    return plan


def make_entry(kind: Family, corpus: Any, wanted: Wanted, tables: Tables, device: torch.device) -> Entry:
    """A family at the size it will have. The settings are checked here, for every order of one that is counted."""
    if kind.build is not None:
        vocab = task_named(wanted.task).vocab(corpus.tokenizer)
        model = choose(kind, corpus, tables, device, wanted.params, vocab).model
        size = parameters(kind, model, vocab)
        return Entry(kind.name, kind.about, False, size, plain(as_values(model)))
    for order in wanted.orders:
        model = choose(kind, corpus, {**tables, "model": {**tables["model"], "order": order}}, device).model
    return Entry(kind.name, kind.about, True, None, plain(as_values(model)))


def one_budget(wanted: Wanted) -> dict[str, float]:
    given = {name: value for name in ("minutes", "tokens", "steps")
             if (value := getattr(wanted, name)) is not None}
    if len(given) > 1:
        raise SettingError(f"--{' and --'.join(given)}: one budget for all; leave all but one out")
    for name, value in given.items():
        if not value > 0:
            raise SettingError(f"--{name} {value}: must be above 0")
    return given or {"minutes": DEFAULT_MINUTES}


def chosen_families(task: str, names: tuple[str, ...]) -> list[str]:
    """The families asked for, each once, or all; a baseline is among them in any case, and first."""
    of = task_named(task)
    first = (of.baseline,) if of.baseline else ()
    return list(dict.fromkeys((*first, *(names or of.families))))


def checked_settings(settings: Mapping[str, Mapping[str, Any]], kinds: list[Family]) -> Tables:
    """Tables for all, and tables for single families. A table that belongs to nobody is refused."""
    known = [kind.name for kind in kinds]
    for table in settings:
        if table not in (*SHARED, *known):
            raise SettingError(f"--set {table}.…: there is no such table; say one of {', '.join((*SHARED, *known))}")
    for name in settings.get("model", {}):
        if not any(name in setting_names(kind) for kind in kinds):
            raise SettingError(f"--set model.{name}: none of the families {', '.join(known)} has it")
    return {table: dict(values) for table, values in settings.items()}


def setting_names(kind: Family) -> set[str]:
    return {each.name for each in fields(kind.settings)}


def family_tables(kind: Family, settings: Tables, budget: Mapping[str, float]) -> Tables:
    """The settings of one family: those for all that it has, and those for it alone."""
    model = {name: value for name, value in settings.get("model", {}).items() if name in setting_names(kind)}
    training = dict(settings.get("training", {}))
    for name, value in settings.get(kind.name, {}).items():
        table, dot, inner = name.partition(".")
        if dot and table == "training":
            training[inner] = value
        else:
            model[name] = value
    return {"data": dict(settings.get("data", {})), "tokenizer": dict(settings.get("tokenizer", {})),
            "model": model, "training": {**training, **budget}}


def describe_corpus(corpus: Any, data: Any) -> dict[str, Any]:
    """The facts about the text that a report shows, and that must be the same when a comparison resumes."""
    langs = {"langs": corpus.langs} if getattr(corpus, "langs", "") else {}
    part = {"measured_on": corpus.measured_on} if corpus.test else {}
    counts = {"train": asdict(corpus.train.counts), "valid": asdict(corpus.valid.counts)}
    if corpus.test and hasattr(corpus.judged, "counts"):             # pairs are counted as they are translated
        counts["test"] = asdict(corpus.judged.counts)
    return counts | langs | part | {
        "documents": corpus.documents, "tokenizer": corpus.tokenizer.kind, "vocab": corpus.tokenizer.vocab_size,
        "held_out": list(data.valid), "test_files": list(data.test),
        "content": corpus.content, "digest": corpus.tokenizer.digest()}


def list_changes(before: ComparisonPlan, after: ComparisonPlan) -> list[tuple[str, Any, Any]]:
    """(setting, then, now) of everything that differs and may not when a comparison resumes."""
    values = [(name, getattr(before, name), getattr(after, name)) for name in ("task", "budget", "params", "device")]
    values += [(f"text {name}", before.text.get(name), after.text.get(name))
              for name in ("content", "documents", "tokenizer", "vocab", "digest", "measured_on")]
    both = {e.family for e in before.entries} & {e.family for e in after.entries}
    for table in (*SHARED, *sorted(both)):
        then, now = before.settings.get(table, {}), after.settings.get(table, {})
        names = sorted({*then, *now})
        values += [(f"{table}.{name}", then.get(name), now.get(name)) for name in names]
    return [(name, show_setting(then), show_setting(now)) for name, then, now in values if plain(then) != plain(now)]


def show_setting(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name} {item}" for name, item in value.items())
    return "unset" if value is None else str(value)


def plain(value: Any) -> Any:
    """The value as JSON gives it back, so that a stored plan and a new one can be compared."""
    return json.loads(json.dumps(value))
