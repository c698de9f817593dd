"""Trackers: the rows of metrics.jsonl, as they are written, for TensorBoard, Weights & Biases or Trackio.

    regard train lm notes.txt --log tensorboard,wandb

Each is another package. It gets the figures of a row and, but for TensorBoard, the settings of the model and of
training: no text, no path, no reading of this machine. metrics.jsonl has all of it whatever a tracker does: one that
fails while a run trains is left, and a note says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from regard import storage
from regard.errors import SettingError, did_you_mean, note
from regard.plain_files import load_json

PROJECT = "regard"                         # where neither WANDB_PROJECT nor TRACKIO_PROJECT says otherwise
IDS = "trackers.json"                      # in a run folder: the ids by which it goes on
TOLD = ("run", "tokenizer", "model", "training")         # tables that a tracker is told of
UNTOLD = ("from", "format")                # of the table [run]
Figures = dict[str, float]


class Tracker(Protocol):
    def row(self, figures: Figures, step: int) -> None:
        """Take the figures of a step."""

    def close(self) -> None:
        """Write what is still to be written."""


class TensorBoard:
    """The folder `tensorboard` of a run."""

    def __init__(self, folder: Path, tables: Mapping[str, Any], resumed: bool):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def row(self, figures: Figures, step: int) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    """A run of wandb, in the folder `wandb` of a run; the variable WANDB_MODE says whether it is sent."""

    def __init__(self, folder: Path, tables: Mapping[str, Any], resumed: bool):
        import wandb

        project = None if os.environ.get("WANDB_PROJECT") else PROJECT
        id = read_ids(folder).get("wandb") if resumed else None
        figures_alone = wandb.Settings(console="off", disable_git=True, disable_code=True, save_code=False,
                                       x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True)
        self.run = wandb.init(project=project, name=folder.name, dir=str(folder), config=config_of(tables), id=id,
                              resume="allow" if id else None, settings=figures_alone)
        write_id(folder, "wandb", self.run.id)

    def row(self, figures: Figures, step: int) -> None:
        self.run.log(figures, step=step)

    def close(self) -> None:
        self.run.finish()


class Trackio:
    """A run of trackio, kept on this machine unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL says otherwise."""

    def __init__(self, folder: Path, tables: Mapping[str, Any], resumed: bool):
        import trackio

        self.finish = trackio.finish                               # a run's own is called again when Python ends
        with redirect_stdout(sys.stderr):                          # trackio prints, and our output may be JSON
            self.run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT") or PROJECT, name=folder.name, config=config_of(tables),
                resume="allow" if resumed else "never", embed=False, auto_log_cpu=False, auto_log_gpu=False)

    def row(self, figures: Figures, step: int) -> None:
        self.run.log(figures, step=step)

    def close(self) -> None:
        with redirect_stdout(sys.stderr):
            self.finish()


# A name -> how it is opened, and the package that must be there, which the extra of this name brings.
TRACKERS: dict[str, tuple[Callable[[Path, Mapping[str, Any], bool], Tracker], str]] = {
    "tensorboard": (TensorBoard, "tensorboard"), "wandb": (WeightsAndBiases, "wandb"),
    "trackio": (Trackio, "trackio")}


def check_trackers(asked: str | Iterable[str], tensorboard: bool = False) -> tuple[str, ...]:
    """Return the names that are asked for, alone or with commas between them, each once; one that is unknown, or whose
    package is missing, is a SettingError. `tensorboard` asks for that, too."""
    names = [name.strip() for each in ([asked] if isinstance(asked, str) else asked) for name in each.split(",")]
    wanted = tuple(dict.fromkeys(filter(None, [*names, "tensorboard" * tensorboard])))
    for name in wanted:
        if name not in TRACKERS:
            raise SettingError(f"--log {name}: there is no such tracker{did_you_mean(name, TRACKERS)}")
        if not is_there(TRACKERS[name][1]):
            raise SettingError(f"--log {name} needs the package {TRACKERS[name][1]}: pip install 'regard[{name}]'")
    return wanted


def is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:                     # it is in sys.modules without a spec: somebody put it there
        return True


class OpenTrackers:
    """The trackers of a run while it trains."""

    def __init__(self, names: Iterable[str], folder: Path, tables: Mapping[str, Any], resumed: bool):
        self.open: dict[str, Tracker] = {}
        for name in names:
            try:
                self.open[name] = TRACKERS[name][0](folder, tables, resumed)
            except Exception as error:     # another package, which may raise anything
                self.close()
                raise SettingError(f"--log {name}: it does not start ({spell_error(error)})") from None

    def row(self, values: Mapping[str, Any]) -> None:
        """Hand the figures of a row to each tracker."""
        figures = {name: float(value) for name, value in values.items()
                   if name not in ("step", "seconds") and isinstance(value, int | float)}
        for name in list(self.open):
            self._try(name, lambda tracker: tracker.row(figures, int(values["step"])))

    def close(self) -> None:
        for name in list(self.open):
            self._try(name, lambda tracker: tracker.close())
        self.open.clear()

    def _try(self, name: str, act: Callable[[Tracker], None]) -> None:
        try:
            act(self.open[name])
        except Exception as error:         # training is not lost for it
            del self.open[name]
            note(f"--log {name} failed ({spell_error(error)}) and is left: metrics.jsonl has every row")


def spell_error(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def config_of(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a tracker is told of; the table [data], which names files, is none of them."""
    return {table: {name: value for name, value in tables[table].items() if name not in UNTOLD and value is not None}
            for table in TOLD if table in tables}


def read_ids(folder: Path) -> dict[str, str]:
    try:
        return dict(load_json(folder / IDS))
    except (OSError, ValueError, TypeError):                   # there is none, or none of use: it begins anew
        return {}


def write_id(folder: Path, name: str, id: str) -> None:
    storage.write_json(folder / IDS, {**read_ids(folder), name: id})
