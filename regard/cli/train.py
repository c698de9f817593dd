"""`regard train`: from data to a run folder. Each task's command is made from its flags.py."""

from __future__ import annotations

import time
from functools import partial
from importlib import import_module
from typing import Any

import click

from regard.cli.options import print_json
from regard.tasks import CARDS
from regard.tasks.flags import settings_from, without_settings


class TrainCommands(click.Group):
    """One command for each task."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(CARDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in CARDS:
            return None
        flags = import_module(f"regard.tasks.{name}.flags")
        return click.Command(name, params=flags.PARAMS, help=flags.HELP, callback=partial(train, name, flags.PARAMS))


@click.group("train", cls=TrainCommands)
def command() -> None:
    """Train a model: from text, sentence pairs, summaries, captioned pictures, labelled texts or tagged sentences."""


def train(
    task: str, declared: list[click.Parameter], /, files: tuple[str, ...], assignments: tuple[str, ...], as_json: bool,
    **options: Any,
) -> None:
    """Train a model of the task, with the options of its command as they were declared and given."""
    began = time.monotonic()                                # what is imported now is of the minutes, too
    from regard.training.run import TrainRequest, run_together

    settings = settings_from(options, assignments, declared)
    request = TrainRequest(files, task=task, settings=settings, **without_settings(options, declared))
    trained = run_together(request, began)
    if as_json and trained is not None:                     # of several ranks the first has it
        from regard.run_folder import RunFolder

        print_json({"run": str(trained.path), "family": trained.family, "parameters": trained.parameters,
                    **last_metrics(trained), **(RunFolder(trained.path).read_test() or {})})


def last_metrics(trained: Any) -> dict[str, Any]:
    """Return the last figures of the run's log, and those of its best validation."""
    from regard.run_folder import METRICS, read_log
    from regard.training.loop import JUDGED

    rows = read_log(trained.path / METRICS)[0] or [{}]      # just written, or cut when the run was resumed; or lost
    best = min((row for row in rows if "valid_loss" in row),
               key=lambda row: (-sum(row.get(name, 0.0) for name in JUDGED), row["valid_loss"]), default={})
    return {**{name: rows[-1].get(name) for name in ("step", "tokens", "seconds")},
            "valid_loss": best.get("valid_loss"), "best_step": best.get("step"),
            **{name: best[name] for name in (*JUDGED, "impossible", "first_impossible") if name in best}}
