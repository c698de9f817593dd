"""The tasks: one table from a name to what is learned from a text."""

from __future__ import annotations

from regard.errors import SettingError, did_you_mean
from regard.tasks import caption, lm, masked, summarise, translate
from regard.tasks.task import Task

TASKS: dict[str, Task] = {
    task.name: task for task in (lm.TASK, masked.TASK, translate.TASK, summarise.TASK, caption.TASK)}


def task_named(name: str) -> Task:
    if name not in TASKS:
        raise SettingError(f"unknown task {name}{did_you_mean(name, TASKS)}")
    return TASKS[name]


__all__ = ["TASKS", "Task", "task_named"]
