"""The models that are served, by id. A path is never shown to a client, nor taken from one.

Nothing is loaded before it is needed: what `describe` tells of a run is read from its folder without torch, so that the
server listens at once. A model is loaded when first used, and stays.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.errors import RegardError, RunError, did_you_mean
from regard.run_folder import SAMPLES, RunFolder
from regard.serve.limits import FairLock, check
from regard.serve.refusals import Refusal, log

# What can be done with a run of each task, in the tabs of the page.
TABS = {
    "lm": ("read", "compute", "generate", "beam", "compare"),
    "masked": ("read", "compute"),
    "translate": ("read", "compute", "generate", "beam", "compare"),
    "summarise": ("read", "compute", "generate", "beam", "compare"),
    "caption": ("read", "compute", "generate", "beam", "compare"),
}
LONGEST_SAMPLE = 10_000_000
EXAMPLE = 400                    # characters
EXAMPLES = {"lm": "Once upon a time", "masked": "Once upon a ___.", "translate": "", "summarise": "",
            "caption": "shapes-1"}
PICTURES = tuple(f"shapes-{number}" for number in range(1, 7))     # of the embedded corpus, to begin with


class UnknownModel(Refusal):
    def __init__(self, name: str, known: Sequence[str]):
        super().__init__(404, f"there is no model {name!r}{did_you_mean(name, known)}", param="model",
                         code="model_not_found")


class Opened:
    """One run that is served: what is known of it at once, and the model itself when it is asked for."""

    def __init__(self, id: str, folder: RunFolder, device: str = "auto", trust: bool = False):
        self.id, self.name = id, folder.path.resolve().name
        self.folder, self.device, self.trust = folder, device, trust
        self.tables = folder.read_settings()
        self.lock = FairLock()                                 # held while the model works
        self._loading = threading.Lock()
        self._trained: Any = None
        self._described: dict[str, Any] | None = None

    @property
    def task(self) -> str:
        return str(self.tables.get("run", {}).get("task", "lm"))

    @property
    def family(self) -> str:
        return str(self.tables.get("run", {}).get("family", ""))

    @property
    def languages(self) -> tuple[str, str] | None:
        """The codes of both languages, as far as they are known."""
        source, dash, target = str(self.tables.get("data", {}).get("langs", "")).partition("-")
        return (source, target) if dash else None

    @property
    def loaded(self) -> bool:
        return self._trained is not None

    @property
    def trained(self) -> Any:
        """The model; loaded when first asked for, which takes a moment: ask in a worker thread."""
        with self._loading:
            if self._trained is None:
                self._trained = self._load()
            return self._trained

    def _load(self) -> Any:
        from regard.trained import load

        bound_threads()
        try:
            trained = load(self.folder.path, self.device, trust=self.trust)
        except RegardError as error:
            log.error("the model %s cannot be loaded: %s", self.id, error)
            raise Refusal(503, f"the model {self.id} cannot be loaded; the server's log says why", param="model",
                          code="model_not_loaded") from None
        ask_before_each_pass(model_of(trained))
        return trained

    # ------------------------------------------------------------------------------------ describing

    def describe(self) -> dict[str, Any]:
        """What the page shows of it, read from its folder once."""
        if self._described is None:
            self._described = self._describe()
        return self._described

    def _describe(self) -> dict[str, Any]:
        return {
            "id": self.id, "name": self.name, "task": self.task, "family": self.family,
            "parameters": count_parameters(self.folder.weights_path),
            "context": self.tables.get("model", {}).get("context"),
            "vocabulary": vocabulary_size(self.folder.tokenizer_path),
            "languages": list(self.languages) if self.languages else None,
            "tabs": list(TABS.get(self.task, ())), "example": example_of(self.folder.path, self.tables, self.task),
            "examples": examples_of(self.tables, self.task),
            "device": self.device_name(), "steps": last_step(self.folder.metrics_path),
            "trained_at": written_at(self.folder.weights_path).isoformat("T", "seconds"),
        }

    def device_name(self) -> str:
        return str(model_of(self._trained).device) if self._trained is not None else self.device


class Registry:
    """The models by id."""

    def __init__(self, runs: Sequence[str | Path], *, device: str = "auto", trust: bool = False):
        self.models: dict[str, Opened] = {}
        seen: set[Path] = set()
        for path in runs:
            folder = RunFolder.open(path)
            if folder.path.resolve() in seen:
                continue
            seen.add(folder.path.resolve())
            check_complete(folder)
            opened = Opened(unique_id(folder.path.resolve().name, self.models), folder, device, trust)
            if opened.task not in TABS:
                raise RunError(f"{path} is a run of the task {opened.task!r}, which is not known here"
                               f"{did_you_mean(opened.task, TABS)}")
            self.models[opened.id] = opened

    def get(self, id: str) -> Opened:
        """The model of this id, not loaded yet perhaps; 404 where there is none."""
        if id not in self.models:
            raise UnknownModel(id, list(self.models))
        return self.models[id]

    def of_task(self, *tasks: str) -> list[Opened]:
        return [opened for opened in self.models.values() if opened.task in tasks]

    def __iter__(self) -> Iterator[Opened]:
        return iter(self.models.values())

    def __len__(self) -> int:
        return len(self.models)

    def without_paths(self, text: str) -> str:
        """A message for a client: where it names a run's folder, the id stands instead."""
        for opened in self.models.values():
            for path in {str(opened.folder.path.resolve()), str(opened.folder.path)}:
                text = text.replace(path, opened.id) if path not in ("", ".") else text
        return text


def unique_id(name: str, taken: Any) -> str:
    """A name for addresses: letters, digits, dot, dash and underscore; counted where it is taken."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"
    number, id = 1, plain
    while id in taken:
        number += 1
        id = f"{plain}-{number}"
    return id


def check_complete(folder: RunFolder) -> None:
    """What is missing is said before anything listens."""
    for path in (folder.weights_path, folder.tokenizer_path):
        if not path.is_file():
            raise RunError(f"{folder.path} has no {path.name} yet: training has not reached its first validation; "
                           "wait for it, or go on with --resume")


# ------------------------------------------------------------------------------------------ of a folder


def count_parameters(weights: Path) -> int:
    """All numbers that were learned, from the header of the file alone."""
    with weights.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(size, 100_000_000)))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            count = 1
            for side in tensor["shape"]:
                count *= side
            total += count
    return total


def written_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def vocabulary_size(path: Path) -> int:
    from regard.text.vocabulary import Tokenizer

    return Tokenizer.load(path).vocab_size


def last_step(metrics: Path) -> int:
    """The last step that was written down; 0 where none was."""
    try:
        with metrics.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):              # cut by the window, or being written
            continue
    return 0


def examples_of(tables: dict[str, dict[str, Any]], task: str) -> list[str]:
    """More to try: pictures that the server draws, or the prompts of the embedded corpus that the run learned from."""
    from regard.text import embedded

    files = [str(name) for name in tables.get("data", {}).get("files", [])]
    if task == "lm" and len(files) == 1 and files[0] in embedded.CORPORA:
        return list(embedded.CORPORA[files[0]].prompts)
    return list(PICTURES) if task == "caption" else []


def example_of(folder: Path, tables: dict[str, dict[str, Any]], task: str) -> str:
    """A text to begin with that the model did not learn from: of its own samples, or of the corpus, if it is ours."""
    from regard.text import embedded

    of_words = tables.get("tokenizer", {}).get("kind") in ("word", "whitespace")
    if sampled := sample_of(folder / SAMPLES, task, between=" " if of_words else ""):
        return sampled
    files = tables.get("data", {}).get("files", [])
    name = str(files[0]) if files else ""
    if name in embedded.CORPORA and task in ("lm", "masked"):
        return next(embedded.lines(name, "valid"))
    if name in embedded.PAIRED and task in ("translate", "summarise"):
        pair = next(iter(embedded.pairs(name, "valid")))
        return pair.target if reversed_pair(tables, name) else pair.source
    return EXAMPLES.get(task, "")


def sample_of(path: Path, task: str, between: str) -> str:
    """The held-out text of which the run wrote its samples, a language model's in two parts; empty if there is none."""
    try:
        with path.open("rb") as file:
            row = json.loads(file.readline(LONGEST_SAMPLE))
        text = str(row["prompt"]) + (between + str(row["reference"]) if task == "lm" else "")
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return text[:EXAMPLE]


def reversed_pair(tables: dict[str, dict[str, Any]], name: str) -> bool:
    from regard.text import embedded

    return str(tables["data"].get("langs", "")) == "-".join(reversed(embedded.PAIRED[name].languages))


# ------------------------------------------------------------------------------------------- of a model


def model_of(trained: Any) -> Any:
    """The network or the table inside."""
    return trained.language_model if hasattr(trained, "language_model") else trained.model


def ask_before_each_pass(model: Any) -> None:
    """Each pass of the model first asks whether it is still wanted, so that any search or loop can be stopped."""
    from torch import nn

    if isinstance(model, nn.Module):
        for part in model.children():
            part.register_forward_pre_hook(lambda module, inputs: check())
    else:                                                      # a table: its methods are wrapped
        for name in ("step", "score"):
            setattr(model, name, _asking(getattr(model, name)))


def _asking(method: Callable[..., Any]) -> Callable[..., Any]:
    def asking(*args: Any, **named: Any) -> Any:
        check()
        return method(*args, **named)

    return asking


def bound_threads() -> None:
    """Half of the cores a pass: up to four run side by side, and more threads than cores make all of them slow."""
    import os

    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
