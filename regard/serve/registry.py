"""The models that are served, by id. A path is never shown to a client, nor taken from one.

Nothing is loaded before it is needed: `describe` reads a run's folder without torch, so that the server listens at
once. A model is loaded when first used, and stays. A damaged run is listed with its problem, in one line; the others
are served.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.errors import RegardError, RunError, did_you_mean
from regard.run_folder import SETTINGS, TOKENIZER, WEIGHTS, RunFolder
from regard.serve.damage import Damaged, count, in_one_line, plain, reading, without_paths
from regard.serve.limits import FairLock, check
from regard.serve.refusals import Refusal, is_out_of_memory, log
from regard.serve.run_files import count_parameters, example_of, last_step, vocabulary_size
from regard.tasks import CARDS, USUAL, Card

Prepare = Callable[[Any], None]            # what is done to a trained model once it is loaded
NO_CARD = Card("", used_by="", fields=(), tabs=())


class UnknownModel(Refusal):
    def __init__(self, name: str, known: Sequence[str]):
        super().__init__(404, f"there is no model {name!r}{did_you_mean(name, known)}", param="model",
                         code="model_not_found")


@dataclass(frozen=True)
class ModelDescription:
    """A served model, as the page lists it."""

    id: str
    name: str
    task: str
    family: str
    context: int | None
    languages: list[str] | None
    tabs: list[str]                      # of the page that work with it
    fields: list[str]                    # of a request to look at it; it reads the first
    example: str
    device: str
    examples: list[str] = field(default_factory=list)
    parameters: int = 0
    vocabulary: int = 0
    steps: int = 0
    trained_at: str = ""
    problem: str | None = None           # why it cannot be used, in one line


class Opened:
    """One run that is served: its settings at once, and the model itself when it is asked for."""

    def __init__(
        self, id: str, folder: RunFolder, device: str = "auto", trust: bool = False, problem: str = "",
        prepare: Prepare | None = None,
    ):
        self.id, self.name = id, plain(folder.path.resolve().name)
        self.folder, self.device, self.trust, self.prepare = folder, device, trust, prepare
        self.unusable = problem                                # found when the server started: there are no settings
        self.problem = problem                                 # why it cannot be used now, in one line
        self.tables = {} if problem else folder.read_settings()
        self.lock = FairLock()                                 # held while the model works
        self._loading = threading.Lock()
        self._trained: Any = None
        self._described: ModelDescription | None = None

    @property
    def task(self) -> str:
        return "" if self.unusable else str(self.tables.get("run", {}).get("task", USUAL))

    @property
    def card(self) -> Card:
        """The card of its task; an empty one for a run that cannot be used."""
        return CARDS.get(self.task, NO_CARD)

    @property
    def family(self) -> str:
        return str(self.tables.get("run", {}).get("family", ""))

    @property
    def languages(self) -> tuple[str, str] | None:
        """The codes of both languages, as far as they are known."""
        source, dash, target = str(self.tables.get("data", {}).get("langs", "")).partition("-")
        return (source, target) if dash else None

    @property
    def trained(self) -> Any:
        """The model. It is loaded when first asked for, which takes a moment: ask in a worker thread."""
        with self._loading:
            if self._trained is None:
                self._trained = self._load()
            return self._trained

    def _load(self) -> Any:
        from regard.trained import load

        bound_threads()
        try:
            trained = load(self.folder.path, self.device, trust=self.trust)
            if self.prepare is not None:
                self.prepare(trained)
        except Exception as error:                             # a damaged file may fail in any way
            if is_out_of_memory(error):
                raise                                          # no fault of the run's
            known = isinstance(error, RegardError)             # it has its line
            log.error("the model %s cannot be loaded: %s", self.id, error, exc_info=None if known else error)
            self.problem = in_one_line(str(error)) if known else (
                f"its files do not fit together ({type(error).__name__}): take them from a copy")
            raise Refusal(503, f"the model {self.id} cannot be loaded; the server's log says why", param="model",
                          code="model_not_loaded") from None
        self.problem = ""
        ask_before_each_pass(trained.model)
        if getattr(trained, "engine", None) is not None:
            trained.engine.before_each = check
        return trained

    # ------------------------------------------------------------------------------------ describing

    def describe(self) -> ModelDescription:
        """Return the description; the run's files are read once, again where one was damaged: it may be mended."""
        problem = self.unusable
        if self._described is None and not problem:
            try:
                self._described = replace(self.describe_settings(), **self.read_files())
            except Damaged as damaged:
                problem = str(damaged)
        device = self.device if self._trained is None else str(self._trained.model.device)
        return replace(self._described or self.describe_settings(), problem=problem or self.problem or None,
                       device=device)

    def describe_settings(self) -> ModelDescription:
        """Return the description as far as run.toml and the task's card go."""
        return ModelDescription(
            self.id, self.name, self.task, self.family, context=count(self.tables.get("model", {}).get("context")),
            languages=list(self.languages) if self.languages else None, tabs=list(self.card.tabs),
            fields=list(self.card.fields), example=self.card.example, device=self.device)

    def read_files(self) -> dict[str, Any]:
        """Return the fields of the description that are read from the run's other files."""
        known: dict[str, Any] = {"steps": last_step(self.folder.metrics_path)}
        with reading(WEIGHTS, self.id):
            known["parameters"] = count_parameters(self.folder.weights_path)
            known["trained_at"] = datetime.fromtimestamp(self.created, UTC).isoformat("T", "seconds")
        with reading(TOKENIZER, self.id):
            known["vocabulary"] = vocabulary_size(self.folder.tokenizer_path)
        with reading(SETTINGS, self.id):
            known["example"] = plain(example_of(self.folder.path, self.tables, self.card))
            known["examples"] = self.card.find_examples(self.tables)
        return known

    @property
    def created(self) -> int:
        """The time when its weights were written, in seconds; 0 where they are gone."""
        try:
            return int(self.folder.weights_path.stat().st_mtime)
        except OSError:
            return 0


class Registry:
    """The models by id. A run that cannot be opened is refused; or, with `lenient`, kept with its problem. `prepare`
    is called with each model once it is loaded."""

    def __init__(
        self, runs: Sequence[str | Path], *, device: str = "auto", trust: bool = False, lenient: bool = False,
        prepare: Prepare | None = None,
    ):
        self.models: dict[str, Opened] = {}
        seen: set[Path] = set()
        for path in runs:
            folder = RunFolder.open(path)
            if folder.path.resolve() in seen:
                continue
            seen.add(folder.path.resolve())
            id = unique_id(folder.path.resolve().name, self.models)
            try:
                with reading(SETTINGS, id) if lenient else nullcontext():
                    self.models[id] = open_run(id, folder, device, trust, prepare)
            except Damaged as damaged:
                self.models[id] = Opened(id, folder, device, trust, problem=str(damaged))

    def get(self, id: str) -> Opened:
        """Return the model of this id, perhaps not loaded yet; 404 where there is none."""
        if id not in self.models:
            raise UnknownModel(id, list(self.models))
        opened = self.models[id]
        if opened.unusable:
            raise Refusal(503, f"the model {id} cannot be used: {opened.unusable}", param="model",
                          code="model_not_loaded")
        return opened

    @property
    def problems(self) -> dict[str, str]:
        """The problem of each run that could not be opened, by id."""
        return {id: opened.unusable for id, opened in self.models.items() if opened.unusable}

    def served_by(self, api: str) -> list[Opened]:
        """Return the models that other tools use by this API: completions, or translate."""
        return [opened for opened in self.models.values() if opened.card.api == api]

    def __iter__(self) -> Iterator[Opened]:
        return iter(self.models.values())

    def __len__(self) -> int:
        return len(self.models)

    def without_paths(self, text: str) -> str:
        """Return a message for a client, with ids in the place of the runs' folders."""
        for opened in self.models.values():
            for path in {str(opened.folder.path.resolve()), str(opened.folder.path)}:
                text = text.replace(path, opened.id) if path not in ("", ".") else text
        return without_paths(text)


def open_run(
    id: str, folder: RunFolder, device: str, trust: bool, prepare: Prepare | None = None
) -> Opened:
    """Return the run; one that lacks weights or tokenizer is refused before anything listens."""
    for path in (folder.weights_path, folder.tokenizer_path):
        if not path.is_file():
            raise RunError(f"{folder.path} has no {path.name} yet: training has not reached its first validation; "
                           "wait for it, or go on with --resume")
    opened = Opened(id, folder, device, trust, prepare=prepare)
    if opened.task not in CARDS:
        raise RunError(f"{folder.path} is a run of the task {opened.task!r}, which is not known here"
                       f"{did_you_mean(opened.task, CARDS)}")
    return opened


def unique_id(name: str, taken: Any) -> str:
    """Return a name for addresses: letters, digits, dot, dash and underscore; with a number where it is taken."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"
    number, id = 1, plain
    while id in taken:
        number += 1
        id = f"{plain}-{number}"
    return id


# ------------------------------------------------------------------------------------------- of a model


def ask_before_each_pass(model: Any) -> None:
    """Make each pass of the model first check whether it is still wanted, so that any search or loop can be stopped."""
    from torch import nn

    if isinstance(model, nn.Module):
        for part in model.children():
            part.register_forward_pre_hook(lambda module, inputs: check())
    else:                                                      # a table: its methods are wrapped
        for method in (model.step, model.score):
            def asking(*args: Any, method: Any = method, **named: Any) -> Any:
                check()
                return method(*args, **named)

            setattr(model, method.__name__, asking)


def bound_threads() -> None:
    """Give a pass half of the cores: up to four run at once, and more threads than cores make all of them slow."""
    import os

    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
