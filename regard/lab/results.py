"""Results on disk: one JSON file an experiment and machine, written after every arm, so that a run can be stopped and
resumed at any time. Verdict, table and charts are worked out from the arms that are stored.

    lab/results/cpu/bottleneck.json        arms of each seed; the card (verdict, table, where, when) of the largest run;
                                           what came out of the largest run of each flip; and by which rules the
                                           numbers were looked at, since when
    lab/results/cpu/bottleneck-1.svg       charts (and .png)
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import fsum
from pathlib import Path
from typing import Any

from regard import __version__, storage
from regard.errors import RunError
from regard.lab import exercises, in_the_open, phrases, stopwatch, tiny
from regard.lab.experiment import Arm, Experiment, Seed, Setting, Values
from regard.lab.hashes import hash_measuring, imported_claims

HELPERS = (tiny, exercises, phrases, in_the_open, stopwatch)   # shared: if one changes, every claim is measured again


@dataclass
class ClaimResults:
    """Everything measured of one experiment on one kind of machine."""

    path: Path
    version: str
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)       # key -> {"values", "seconds"}
    record: dict[str, Any] = field(default_factory=dict)                # the rest of the file

    def add(self, key: str, values: Values, seconds: float) -> None:
        self.arms[key] = {"values": values, "seconds": round(seconds, 2)}

    def seeds(self, experiment: Experiment, settings: Sequence[Setting]) -> list[Seed] | None:
        """The values of every arm for each of these settings; None while some are missing."""
        keys = [{arm.name: key_of(experiment, arm, setting) for arm in experiment.arms} for setting in settings]
        if not all(key in self.arms for own in keys for key in own.values()):
            return None
        return [{name: self.arms[key]["values"] for name, key in own.items()} for own in keys]

    def seconds(self, experiment: Experiment, settings: Sequence[Setting]) -> float:
        keys = {key_of(experiment, arm, setting) for setting in settings for arm in experiment.arms}
        return fsum(self.arms[key]["seconds"] for key in keys if key in self.arms)      # in any order the same

    def ran(self, setting: Setting) -> dict[str, Any]:
        """The machine and the day on which arms of this kind were measured last."""
        return self.record.get("ran", {}).get(kind_of(setting)) or self.record.get("where", {})

    def runs_here(self, setting: Setting) -> None:
        self.record.setdefault("ran", {})[kind_of(setting)] = where(setting.device)

    def look(self, rules: str) -> None:
        """Record that these rules judge the numbers: the first time, with the day."""
        looks = self.record.setdefault("looks", [])
        if rules and all(look["rules"] != rules for look in looks):
            looks.append({"rules": rules, "when": today()})

    def save(self) -> None:
        storage.make_folder(self.path.parent)
        values = {**self.record, "version": self.version, "arms": self.arms}
        storage.write_file(self.path, json.dumps(values, indent=1, allow_nan=True) + "\n")


def key_of(experiment: Experiment, arm: Arm, setting: Setting) -> str:
    """The name under which an arm is stored. An arm that a flip does not change is measured once."""
    if setting.flipped and not experiment.changes(setting.flipped, arm):
        setting = replace(setting, flipped="")
    return f"{arm.name} · {'once' if arm.once else f'seed {setting.seed}'} · {kind_of(setting)}"


def kind_of(setting: Setting) -> str:
    return f"{'quick' if setting.quick else 'full'}{f' · flip {setting.flipped}' if setting.flipped else ''}"


def open_results(folder: Path, experiment: Experiment, device: str) -> ClaimResults:
    """The results of an experiment. Arms measured by other code are dropped; the rules that judged them stay."""
    path = folder / device / f"{experiment.name}.json"
    version = version_of(experiment)
    if not path.exists():
        return ClaimResults(path, version)
    try:
        record = json.loads(path.read_text("utf-8"))
        arms = record.pop("arms")
        same = record.pop("version") == version
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"{path} is no result of the lab: move it away, and it is measured again") from None
    looks = {"looks": record["looks"]} if "looks" in record else {}
    return ClaimResults(path, version, arms if same else {}, record if same else looks)


def version_of(experiment: Experiment) -> str:
    """A hash of the code that measures: of the experiment's own files, claims that these import, and what all share."""
    own = experiment.files or (inspect.getsourcefile(experiment.charts) or "",)
    sources = [Path(file).read_text("utf-8") for file in own]
    claims = sorted({name for source in sources for name in imported_claims(source)})
    shared = [inspect.getsourcefile(each) or "" for each in (*map(import_module, claims), *HELPERS)]
    seen = hashlib.sha256()
    for source in (*sources, *(Path(file).read_text("utf-8") for file in shared)):
        seen.update(hash_measuring(source).encode())
    return seen.hexdigest()[:16]


def has_changed(experiment: Experiment, version: str) -> bool:
    """True where the code on disk is no longer what it was."""
    try:
        return version_of(experiment) != version
    except (OSError, SyntaxError):                           # a file that is gone, or half written
        return True


def where(device: str) -> dict[str, Any]:
    """The machine that measures; no names of machines or people."""
    import torch

    on = torch.cuda.get_device_name() if device == "cuda" else f"{os.cpu_count()} CPU cores"
    return {"device": on, "torch": torch.__version__, "python": platform.python_version(), "regard": __version__,
            "when": today()}


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
