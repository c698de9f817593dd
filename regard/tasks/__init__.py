"""The tasks: a folder each, and one table. A new task is a folder here, and its name in `CARDS`.

    CARDS["lm"].tabs               # known at once, without torch
    TASKS["lm"].trained            # from regard/tasks/lm/task.py, imported when it is asked for

A folder holds the task's card (`__init__`), its value (`task.py`), the class of its trained models (`trained.py`), and
what these need: `look.py`, `sample.py`, `score.py`, `flags.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.config import convert
from regard.errors import SettingError, did_you_mean
from regard.tasks import caption, classify, lm, masked, summarise, tag, translate
from regard.tasks.card import Card

if TYPE_CHECKING:
    from regard.tasks.task import Task

CARDS: dict[str, Card] = {
    each.CARD.name: each.CARD for each in (lm, masked, translate, summarise, caption, classify, tag)}
USUAL = lm.CARD.name                         # the task of a run that names none


class Tasks(Mapping[str, "Task"]):
    """The tasks by name, each imported when it is first asked for."""

    def __getitem__(self, name: str) -> Task:
        if name not in CARDS:
            raise KeyError(name)
        return import_module(f"regard.tasks.{name}.task").TASK               # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(CARDS)

    def __len__(self) -> int:
        return len(CARDS)


TASKS = Tasks()


def task_named(name: str) -> Task:
    if name not in CARDS:
        raise SettingError(f"unknown task {name}{did_you_mean(name, CARDS)}")
    return TASKS[name]


def run_task(tables: Mapping[str, Mapping[str, Any]]) -> Task:
    """The task of a run, by its run.toml."""
    return task_named(convert(tables.get("run", {}).get("task", USUAL), str, "run.task"))


__all__ = ["CARDS", "TASKS", "USUAL", "Card", "run_task", "task_named"]
