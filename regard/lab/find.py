"""Finding experiments: every file of `regard/lab/claims`, and those of a folder of the user's own."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from regard.errors import SettingError, did_you_mean
from regard.lab import claims
from regard.lab.experiment import Experiment


def experiments(folder: str | Path | None = None) -> dict[str, Experiment]:
    """All experiments by name, in the order of their numbers. `folder` holds more of them, whose code is then run."""
    found = [_taken(module) for module in [*_ours(), *(_theirs(Path(folder)) if folder else [])]]
    names = [each.name for each in found]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise SettingError(f"two experiments are called {doubled}: give one of them another name")
    return {each.name: each for each in sorted(found, key=lambda each: (each.number, each.name))}


def experiment(name: str, folder: str | Path | None = None) -> Experiment:
    every = experiments(folder)
    by_number = {str(each.number): each for each in every.values()}
    if name not in every and name not in by_number:
        raise SettingError(f"there is no experiment {name}{did_you_mean(name, every)}")
    return every.get(name) or by_number[name]


def _ours() -> list[ModuleType]:
    return [importlib.import_module(f"{claims.__name__}.{each.name}") for each in pkgutil.iter_modules(claims.__path__)]


def _theirs(folder: Path) -> list[ModuleType]:
    files = sorted(folder.glob("*.py"))
    if not files:
        raise SettingError(f"--from {folder}: there is no file with an experiment")
    return [_loaded(file) for file in files if not file.name.startswith("_")]


def _loaded(file: Path) -> ModuleType:
    name = re.sub(r"\W", "_", file.stem)
    spec = importlib.util.spec_from_file_location(f"regard_lab_{name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _taken(module: ModuleType) -> Experiment:
    found = getattr(module, "EXPERIMENT", None)
    if not isinstance(found, Experiment):
        raise SettingError(f"{module.__name__} has no EXPERIMENT: say what is measured and how it is judged")
    return replace(found, about=module.__doc__ or "")
