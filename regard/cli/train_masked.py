"""`regard train masked`: from text files to a model that fills blanks."""

from __future__ import annotations

from typing import Any

import click

from regard.cli.train import FLAGS, command, last_metrics, lm, settings_from
from regard.families import names

FAMILIES = ", ".join(names.MASKED)
# The options of `regard train lm` that mean the same here.
SHARED = ("files", "out", "valid", "tokenizer", "vocab", "documents", "on_bad_text", "params", "layers", "width",
          "heads", "hidden", "context", "dropout", "batch", "rate", "steps", "tokens", "minutes", "seed", "device",
          "resume", "start_over", "base", "assignments", "tensorboard", "quiet", "as_json")
OWN = [click.Option(["--family"], help=f"Kind of encoder: {FAMILIES}.  [default: transformer]"),
       click.Option(["--cell"], type=click.Choice(["rnn", "gru", "lstm"]), help="Cell of a recurrent encoder.")]


@command.command("masked", params=[each for each in lm.params if each.name in SHARED] + OWN)
def masked(
    files: tuple[str, ...], assignments: tuple[str, ...], as_json: bool, cell: str | None, **options: Any
) -> None:
    """Train a model that tells hidden tokens from both sides: to fill blanks, and to give texts vectors.

    Of the tokens 15% are hidden, others each time. With only a file given, everything else is chosen and shown.
    """
    from regard.training.run import Order, carry_out

    tables = settings_from(options, assignments)
    if cell is not None:
        tables.setdefault("model", {}).setdefault("cell", cell)
    trained = carry_out(Order(
        files, task="masked", settings=tables, **{k: v for k, v in options.items() if k not in FLAGS}))
    if as_json:
        from regard.cli.output import print_json

        print_json({"run": str(trained.path), "family": trained.family, "parameters": trained.parameters,
                    **last_metrics(trained)})
