"""Finding experiments: every file of `regard/lab/claims`, and those of a folder of the user's own."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from regard.errors import SettingError, did_you_mean
from regard.lab import claims
from regard.lab.experiment import Experiment

RESERVED = ("all", "worked")               # words that the commands understand in the place of a name


def experiments(folder: str | Path | None = None) -> dict[str, Experiment]:
    """All experiments by name, in the order of their numbers. `folder` holds more of them, whose code is then run."""
    found = [*_ours(), *(_theirs(Path(folder)) if folder else [])]
    for what, count in (("called", Counter(each.name for each in found)),
                        ("of number", Counter(each.number for each in found))):
        if doubled := [str(each) for each, times in count.items() if times > 1]:
            raise SettingError(f"two experiments are {what} {doubled[0]}: change one of them")
    return {each.name: each for each in sorted(found, key=lambda each: (each.number, each.name))}


def experiment(name: str, folder: str | Path | None = None) -> Experiment:
    every = experiments(folder)
    by_number = {str(each.number): each for each in every.values()}
    if name not in every and name not in by_number:
        raise SettingError(f"there is no experiment {name}{did_you_mean(name, every)}")
    return every.get(name) or by_number[name]


# ------------------------------------------------------------------------------------------------- our own


def _ours() -> list[Experiment]:
    return [_our(importlib.import_module(f"{claims.__name__}.{each.name}"))
            for each in pkgutil.iter_modules(claims.__path__)]


def _our(module: ModuleType) -> Experiment:
    found = getattr(module, "EXPERIMENT", None)
    assert isinstance(found, Experiment) and module.__file__, f"{module.__name__} has no EXPERIMENT"
    return replace(found, about=module.__doc__ or "", files=(module.__file__,))


# ------------------------------------------------------------------------------------------ of a user's folder


def _theirs(folder: Path) -> list[Experiment]:
    """Each file is an experiment, but for those that begin with _: what the others import."""
    files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
    if not files:
        raise SettingError(f"--from {folder}: there is no file with an experiment")
    if str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))
    shared = sorted(folder.glob("_*.py"))
    return [_their(file, shared) for file in files]


def _their(file: Path, shared: Sequence[Path]) -> Experiment:
    name = re.sub(r"\W", "_", file.stem)
    spec = importlib.util.spec_from_file_location(f"regard_lab_{name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:               # whatever a file of the user's does, it is told in a line
        why = (str(error).strip().splitlines() or [""])[0]
        raise SettingError(f"{file} cannot be loaded: {type(error).__name__}: {why}: mend it, or take it out of the "
                           "folder") from error
    found = getattr(module, "EXPERIMENT", None)
    if not isinstance(found, Experiment):
        raise SettingError(f"{file} has no EXPERIMENT: say what is measured and how it is judged; a file that others "
                           "import begins with _")
    _refuse(found, file)
    return replace(found, about=module.__doc__ or "", files=(str(file), *map(str, shared)))


def _refuse(one: Experiment, file: Path) -> None:
    """Refuse what could not be run or stored: names become names of files and of measurements."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", one.name) or one.name in RESERVED or one.name.isdigit():
        raise SettingError(f"{file}: name {one.name!r}: use small letters, digits and dashes, and none of "
                           f"{', '.join(RESERVED)}")
    arms = [arm.name for arm in one.arms]
    if not arms or len(set(arms)) < len(arms) or not one.rules:
        raise SettingError(f"{file}: arms {', '.join(arms) or 'none'}; {len(one.rules)} rules: give at least one of "
                           "each, and every arm a name of its own")
