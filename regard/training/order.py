"""An order: what the user asked for, before anything is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard import storage
from regard.errors import SettingError
from regard.families.sizes import Tables
from regard.tasks import task_named


@dataclass(frozen=True)
class Order:
    """What the user asked for."""

    files: tuple[str, ...]
    task: str = "lm"
    family: str | None = None              # None: the task's usual one, or what the run resumed or begun with is
    out: str | None = None
    settings: Tables | None = None         # tables of changed settings: {"training": {"batch": 8}}
    resume: bool = False
    start_over: bool = False               # with resume: from the first step where no checkpoint can be used
    base: str | None = None                # a run whose weights to begin with
    params: int | None = None              # how many parameters the model shall have; None: chosen
    device: str = "auto"
    trust: bool = False                    # import the code that a run resumed or begun with names
    tensorboard: bool = False
    quiet: bool = False


def claim_folder(order: Order) -> tuple[Path, bool]:
    """The run's folder, and whether it was made for it: two trainings that start together never get the same.

    Without --out it is runs/NAME-FAMILY (or NAME-TASK-FAMILY), with a number behind it if taken; the newest of them
    when resuming.
    """
    if order.out is not None:
        return Path(order.out), storage.claim_folder(Path(order.out))
    name = (order.family or task_named(order.task).usual).rpartition(":")[2]          # Layer of module:Layer
    name = name if order.task == "lm" else f"{order.task}-{name}"
    stem = Path(order.files[0]).name.split(".")[0] if order.files and order.files[0] != "-" else "text"
    numbers = ("", *(f"-{n}" for n in range(2, 10_000)))
    names = [Path("runs") / f"{stem or 'text'}-{name}{number}" for number in numbers]
    taken = [name for name in names if name.exists()]
    if order.resume and taken:
        return taken[-1], False
    return next(name for name in names if storage.claim_folder(name)), True


def require_family(order: Order, name: str, what: str) -> None:
    if order.family is not None and order.family != name:
        raise SettingError(f"--family {order.family}: {what} goes on with a {name}; leave --family out")


def refuse_params(order: Order, how: str) -> None:
    if order.params is not None:
        raise SettingError(f"--params {order.params:,}: {how} goes on with a model that has its size; leave it out")
