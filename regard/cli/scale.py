"""`regard scale`: what ten times more minutes, parameters or data would give, from short runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from regard.cli.options import print_json, tell
from regard.families import names
from regard.tasks.flags import COUNT, DEVICE, DOCUMENTS, TOKENIZER, VALID, settings_from, without_settings
from regard.tasks.translate import flags as translate


@click.group("scale")
def command() -> None:
    """Predict the loss with ten times more minutes, parameters or data, with intervals, from short runs."""


SHARED: list[click.Parameter] = [
    click.Option(["--minutes"], type=float, help="Budget of all runs together in minutes ...  [default: 20]"),
    click.Option(["--steps"], type=int, help="... or the steps of the longest run."),
    click.Option(["--axes"], default="minutes,size,data", show_default=True, metavar="A,B,...",
                 help="What to scale: minutes, size, data."),
    click.Option(["--params"], type=COUNT, metavar="N",
                 help="Parameters of the model in the middle, e.g. 1M.  [default: chosen]"),
    *TOKENIZER,
    click.Option(["--out"], metavar="FOLDER", help="Folder of the results.  [default: scale/DATA-TASK]"),
    DEVICE,
    click.Option(["--set", "assignments"], multiple=True, metavar="TABLE.NAME=VALUE",
                 help="Any setting of run.toml, for all runs."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print everything as JSON."),
]
GOES_ON = ("Runs have 1/8, 1/4, 1/2 and all of the longest length, half and twice the parameters, a quarter and a half "
           "of the data; each has its own full schedule. What was interrupted goes on when the same command is given "
           "again.")


def scale(
    task: str, declared: list[click.Parameter], /, files: tuple[str, ...], axes: str, assignments: tuple[str, ...],
    as_json: bool, **options: Any,
) -> None:
    """Scale a task, with the options of its command as they were declared and given."""
    from regard.scale.forecast import scale as make_forecast
    from regard.scale.ladder import ScaleRequest

    chosen = tuple(name.strip() for name in axes.split(",") if name.strip())
    request = ScaleRequest(files, task=task, axes=chosen, settings=settings_from(options, assignments, declared),
                           **without_settings(options, declared))
    forecast = make_forecast(request, say=tell)
    if as_json:
        print_json(forecast.as_dict())
        return
    from regard.scale.forecast_page import as_text

    click.echo(as_text(forecast))
    tell(f"page: {forecast.folder / 'scale.html'}")


def add_command(task: str, about: str, data: str, families: str, *params: click.Parameter) -> None:
    """Add the command that scales the models of a task, with options of its own."""
    declared = [
        click.Argument(["files"], nargs=-1, required=True, metavar=data),
        click.Option(["--family"], help=f"Kind of model: {families}.  [default: transformer]"), *params, *SHARED]
    command.add_command(click.Command(task, params=declared, help=about, callback=partial(scale, task, declared)))


add_command(
    "lm", f"""Predict the loss of a language model with ten times more minutes, parameters or data.

    DATA is files, folders, or the name of an embedded corpus (stories, ab, sally).

    {GOES_ON}""", "DATA...", ", ".join(names.LANGUAGE),
    click.Option(["--mix/--no-mix"], default=None,
                 help="Mix the model with an n-gram of the same text.  [default: --mix, unless --family is given]"),
    DOCUMENTS, VALID)
add_command(
    "translate", f"""Predict the loss and BLEU of a translator with ten times more minutes, parameters or data.

    {GOES_ON}""", "SOURCE TARGET | PAIRS...", ", ".join(names.TRANSLATE),
    translate.LANGS, *translate.VALID)
