"""`regard compare`: several families on the same texts under the same budget, in one table and one report."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import click

from regard.cli.options import print_json, tell
from regard.families import names
from regard.tasks import flags
from regard.tasks.classify.flags import FIELDS
from regard.tasks.flags import Flag, choose_test, settings_from, without_settings
from regard.tasks.translate import flags as translate


@click.group("compare")
def command() -> None:
    """Train several families on the same text under the same budget, and compare them."""


# What means the same whatever is compared.
SHARED = [
    click.Option(["--params"], type=flags.COUNT, metavar="N",
                 help="Parameters of each, within 5%, e.g. 1M.  [default: its own size]"),
    click.Option(["--minutes"], type=float, help="Budget of each trial in minutes ...  [default: 2]"),
    click.Option(["--tokens"], type=flags.COUNT, metavar="N", help="... or in tokens ..."),
    click.Option(["--steps"], type=int, help="... or in steps."),
    click.Option(["--seeds"], default=3, show_default=True, help="How often each family is trained."),
    *flags.TOKENIZER,
    click.Option(["--out"], metavar="FOLDER", help="Folder of the results.  [default: compare/DATA]"),
    flags.DEVICE,
    click.Option(["--set", "assignments"], multiple=True, metavar="TABLE.NAME=VALUE",
                 help="A setting for all (training.batch=8), or for one family (rnn.layers=2, rnn.training.batch=8)."),
    click.Option(["--dry-run"], is_flag=True, help="Show what would be trained, and how long it would take."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print everything as JSON."),
]
# What is said of every comparison.
CHOSEN = "Weights are chosen on one held-out part and reported on another."
GOES_ON = ("= marks families within the noise of the first. The same command continues an interrupted comparison; "
           "you may add families and seeds.")


def numbers(text: str) -> tuple[int, ...]:
    """Return `2-5,7` as (2, 3, 4, 5, 7)."""
    orders: set[int] = set()
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            orders |= set(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        orders = set()
    if not orders:
        raise click.BadParameter(f"{text}: write orders as 3, 2-5 or 3,5", param_hint="--orders")
    return tuple(sorted(orders))


def compare(
    task: str, declared: list[click.Parameter], /, files: tuple[str, ...], families: str,
    assignments: tuple[str, ...], dry_run: bool, as_json: bool, **options: Any,
) -> None:
    """Compare the families of the task, with the options of its command as they were declared and given."""
    from regard.compare import comparison
    from regard.compare.plan import Wanted

    names = tuple(name.strip() for name in families.split(",") if name.strip())
    tables = settings_from(options, (), declared)
    for table, name, value in split_assignments(assignments, names):
        tables.setdefault(table, {})[name] = value
    wanted = Wanted(files, names, settings=tables, task=task, **without_settings(options, declared))
    if dry_run:
        plan = comparison.make_or_join_plan(wanted, wanted.folder, say=tell)
        click.echo(comparison.dry_run(plan, wanted.folder))
        return
    show(comparison.compare(wanted, say=tell), as_json)


def add_command(task: str, about: str, data: str, families: str, *params: click.Parameter) -> None:
    """Add the command that compares the families of a task, with options of its own."""
    declared = [
        click.Argument(["files"], nargs=-1, required=True, metavar=data),
        click.Option(["--families"], default="", metavar="A,B,...", help=f"{families}.  [default: all]"),
        *params, *SHARED]
    command.add_command(click.Command(task, params=declared, help=about, callback=partial(compare, task, declared)))


add_command(
    "lm", f"""Compare language models on text: files, folders, or the name of an embedded corpus (stories, ab, sally).

    The n-gram stands in every table, as the baseline to beat. Weights and orders are chosen on one held-out part and
    reported on another. {GOES_ON}""", "DATA...", "Families, or module:Layer",
    click.Option(["--orders"], default="2-7", show_default=True, callback=lambda context, param, text: numbers(text),
                 help="Orders of the n-gram, e.g. 3 or 2-5 or 3,5."),
    flags.DOCUMENTS, flags.VALID, choose_test("Text"))
add_command(
    "translate", f"""Compare translators on sentence pairs: two files line by line, one file of pairs, or the
    phrasebook.

    They stand in the order of their BLEU, the median over the seeds with its interval. {CHOSEN} {GOES_ON}""",
    "SOURCE TARGET | PAIRS...", "transformer, rnn-attention, rnn, prefix",
    translate.LANGS, *translate.VALID, *translate.TEST)
add_command(
    "classify", f"""Compare classifiers on labelled texts: .tsv, .csv or .jsonl files, or the name of an embedded corpus
    (origins).

    They stand in the order of their accuracy, beside that of the majority class and of a bag of n-grams that learned
    from the same texts. {GOES_ON}""", "FILES...", ", ".join(names.CLASSIFY), *FIELDS)
add_command(
    "tag", f"""Compare taggers on tagged sentences: files, or the embedded corpus `tagged`.

    They stand in the order of their accuracy, the median over the seeds with its interval, beside the most frequent tag
    of each word as the baseline. {CHOSEN} {GOES_ON}""", "FILES...", ", ".join(names.TAG),
    Flag("--valid", "data.valid", multiple=True, metavar="FILE", help="Held-out sentences.  [default: 10%]"),
    choose_test("Sentences"))


@command.command("report")
@click.argument("folder")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def report(folder: str, as_json: bool) -> None:
    """Make the table and the report of FOLDER again from what is kept there; nothing is trained."""
    from regard.compare import comparison

    show(comparison.report(folder), as_json)


def show(compared: Any, as_json: bool) -> None:
    from regard.compare.results_table import as_text, print_rich

    if as_json:
        print_json(compared.as_dict())
        return
    if sys.stdout.isatty():
        print_rich(compared.rows, compared.plan)
    else:
        click.echo(as_text(compared.rows, compared.plan))
    tell(f"report: {compared.folder / 'report.html'}")


def split_assignments(assignments: tuple[str, ...], families: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Return (table, name, value) of each --set; the name of a family that is a module may hold points."""
    from regard.config import parse_assignments

    triples = []
    for text in assignments:
        own = next((name for name in families if ":" in name and text.startswith(f"{name}.")), None)
        short = text if own is None else "own" + text.removeprefix(own)
        for table, values in parse_assignments([short]).items():
            triples += [(own or table, name, value) for name, value in values.items()]
    return triples
