"""Flags of `regard train`: options that set something of run.toml, and those that every task has.

A task's own are in its flags.py, beside the text of its help; the command is made from them (cli/train.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import click

TOKENIZERS = ("auto", "char", "byte", "whitespace", "word", "bpe", "unigram")


class Flag(click.Option):
    """An option that sets settings of run.toml, so that the flag and --set are the same thing."""

    def __init__(self, name: str, *sets: str, **options: Any):
        super().__init__([name], **options)
        self.sets = tuple(place.split(".") for place in sets)          # "model.layers": a table and a name in it


class Like(click.Option):
    """`--like NAME`: the equations of a known model of this task."""

    def __init__(self, *names: str):
        super().__init__(["--like"], type=choice(*names), help="Equations of a known model, so that others can open "
                         "the export.")


class Count(click.ParamType):
    """A number of things, as people write it: 1000000, 1,000,000, 500k, 1.5M."""

    name = "count"
    thousands: ClassVar = {"k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).lower().replace(",", "").replace("_", "")
        times = self.thousands.get(text[-1:], 1)
        try:
            number = float(text[:-1] if times > 1 else text) * times
            if not 1 <= number < 2**63 or number != int(number):
                raise ValueError
        except (ValueError, OverflowError):
            self.fail(f"{value} is not a number of things: write it as 1000000, 500k or 1.5M", param, ctx)
        return int(number)


COUNT = Count()


def choice(*values: str) -> click.Choice:
    return click.Choice(values)


def choose_family(what: str, names: tuple[str, ...], usual: str, others: str = "") -> click.Option:
    """`--family`, with the names in its help and for completion; a name that is none of them is refused later, so that
    a user's own layer may be given."""
    return click.Option(
        ["--family"], help=f"Kind of {what}: {', '.join(names)}{others}.  [default: {usual}]",
        shell_complete=lambda context, param, begun: [name for name in names if name.startswith(begun)])


def one_name(context: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """The callback of an option that takes one name where the setting has several."""
    return (value,) if value else ()


def settings_from(
    options: dict[str, Any], assignments: tuple[str, ...], params: Iterable[click.Parameter]
) -> dict[str, dict[str, Any]]:
    """Return flags and --set as tables of settings; --set wins, and of two flags for one setting the first."""
    from regard.config import parse_assignments

    tables: dict[str, dict[str, Any]] = {}
    for flag in params:
        if isinstance(flag, Flag) and (value := options.get(flag.name or "")) not in (None, ()):
            for table, name in flag.sets:
                tables.setdefault(table, {}).setdefault(name, value)
    for table, values in parse_assignments(assignments).items():
        tables.setdefault(table, {}).update(values)
    return tables


def without_settings(options: dict[str, Any], params: Iterable[click.Parameter]) -> dict[str, Any]:
    """Return the options that set nothing in run.toml."""
    flags = {each.name for each in params if isinstance(each, Flag)}
    return {name: value for name, value in options.items() if name not in flags}


# ------------------------------------------------------------------------------------------------ common

TOKENIZER: list[click.Parameter] = [
    Flag("--tokenizer", "tokenizer.kind", type=choice(*TOKENIZERS), help="How text becomes tokens.  [default: chosen]"),
    Flag("--vocab", "tokenizer.vocab", type=int, help="Vocabulary size.  [default: chosen]"),
]
WORKERS = click.Option(["--workers"], type=click.IntRange(min=1), metavar="N",
                       help="Processes that read a large text.  [default: one per core]")
DEVICE = click.Option(["--device"], default="auto", show_default=True,
                      help="cpu, cuda, cuda:1, ...; auto: a GPU if there is one.")

# What means the same for every task.
COMMON: list[click.Parameter] = [
    click.Option(["--out"], metavar="FOLDER", help="Run folder, where the model is saved.  [default: runs/FILE-FAMILY "
                 "or runs/FILE-TASK-FAMILY, with a number if taken]"),
    *TOKENIZER,
    Flag("--on-bad-text", "data.on_bad_text", type=choice("fail", "replace", "drop"),
         help="What to do with bad UTF-8."),
    click.Option(["--params"], type=COUNT, metavar="N",
                 help="How many parameters, e.g. 1M or 500k.  [default: chosen]"),
    Flag("--layers", "model.layers", type=int, help="Layers, or blocks.  [default: chosen]"),
    Flag("--width", "model.width", type=int, help="Width of the vectors."),
    Flag("--heads", "model.heads", type=int, help="Attention heads."),
    Flag("--hidden", "model.hidden", type=int, help="Width of a recurrent state."),
    Flag("--context", "model.context", type=int, help="Tokens read at once."),
    Flag("--dropout", "model.dropout", type=float, help="Dropout probability.  [default: chosen]"),
    Flag("--rate", "training.learning_rate", type=float, help="Learning rate."),
    Flag("--steps", "training.steps", type=int, help="Budget in steps ..."),
    Flag("--tokens", "training.tokens", type=int, help="... or in tokens ..."),
    Flag("--minutes", "training.minutes", type=float, help="... or in minutes.  [default: 5]"),
    Flag("--seed", "training.seed", type=int, help="Seed of all random numbers."),
    Flag("--deterministic", "training.deterministic", is_flag=True, default=None,
         help="Deterministic algorithms on a GPU: equal weights every time, more slowly."),
    DEVICE,
    click.Option(["--parallel"], type=choice("auto", "data", "buckets", "fsdp"), default="auto", show_default=True,
                 help="With several ranks under torchrun. data: each holds all weights; buckets: data, and gradients "
                 "are sent during the backward pass; fsdp: weights are sharded."),
    WORKERS,
    click.Option(["--resume"], is_flag=True, help="Continue the run in --out, or the newest one of these files."),
    click.Option(["--start-over"], is_flag=True, help="With --resume: from step 0 if no checkpoint is left."),
    click.Option(["--from", "base"], metavar="RUN", help="Start with the weights of another run (fine-tuning)."),
    click.Option(["--set", "assignments"], multiple=True, metavar="TABLE.NAME=VALUE",
                 help="Any setting of run.toml."),
    click.Option(["--log"], multiple=True, metavar="NAME", help="Also send the figures of each step to tensorboard, "
                 "wandb or trackio; several with commas."),
    click.Option(["--tensorboard"], is_flag=True, help="The same as --log tensorboard."),
    click.Option(["--quiet"], is_flag=True, help="Print nothing."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the outcome as JSON."),
]


def choose_test(what: str, **options: Any) -> Flag:
    """The flag of the files to report on."""
    return Flag("--test", "data.test", help=f"{what} to report on, by which nothing is chosen.  [default: half of the "
                "held-out part]", **({"multiple": True, "metavar": "FILE"} | options))


VALID = Flag("--valid", "data.valid", multiple=True, metavar="FILE", help="Held-out text.  [default: the last 10%]")
DOCUMENTS = Flag("--documents", "data.documents", type=choice("auto", "file", "line", "blank-line"),
                 help="What one document is: a file, a line, or a block between blank lines.")
# What means the same for every task that learns from text.
TEXT: list[click.Parameter] = [
    click.Argument(["files"], nargs=-1, required=True, metavar="FILES..."),
    VALID,
    choose_test("Text"),
    DOCUMENTS,
    Flag("--field", "data.field", metavar="NAME", help="The column or field of records with the text.  [default: "
         "text]"),
    Flag("--batch", "training.batch", type=int, help="Rows in a step."),
]
