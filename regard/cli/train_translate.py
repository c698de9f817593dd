"""`regard train translate`: from sentence pairs to a translator."""

from __future__ import annotations

from typing import Any

import click

from regard.cli.train import FLAGS, command, last_metrics, lm, settings_from
from regard.families import names

FAMILIES = ", ".join(names.TRANSLATE)
# The options of `regard train lm` that mean the same here.
SHARED = ("out", "tokenizer", "vocab", "on_bad_text", "params", "layers", "width", "heads", "hidden", "context",
          "dropout", "rate", "steps", "tokens", "minutes", "seed", "device", "resume", "start_over", "base",
          "assignments", "tensorboard", "quiet", "as_json")
# flag -> (table, setting) of run.toml
OWN_FLAGS = {"langs": ("data", "langs"), "score": ("model", "score"),
             "projections": ("model", "projections"), "cell": ("model", "cell"),
             "when": ("model", "when"), "reader": ("model", "reader"), "feeding": ("model", "feeding"),
             "mixer": ("model", "mixer"), "shared": ("tokenizer", "shared")}
OWN = [
    click.Argument(["files"], nargs=-1, required=True, metavar="SOURCE TARGET | PAIRS..."),
    click.Option(["--family"], help=f"Kind of translator: {FAMILIES}.  [default: transformer]"),
    click.Option(["--langs"], metavar="fr-en", help="From which language to which.  [default: from the files' names]"),
    click.Option(["--valid"], nargs=2, metavar="SOURCE TARGET", help="Held-out files.  [default: the last 10%]"),
    click.Option(["--valid-pairs"], metavar="PAIRS", help="The same, as one file of pairs."),
    click.Option(["--shared/--separate"], default=None, help="One vocabulary for both languages, or two."),
    click.Option(["--cell"], type=click.Choice(["rnn", "relu", "gru", "lstm"]), help="Cell of a recurrent translator."),
    click.Option(["--score"], help="e(q, k): dot q·k, scaled-dot q·k/sqrt K, bilinear q·Wk, low-rank (Uq)·(Vk), "
                 "additive v·tanh(Wq+Uk), location (Wq+b)_l."),
    click.Option(["--projections"], help="q and k before the score: both (W_q s, W_k h), none (states s and h as they "
                 "are), auto (recurrent: none but for scaled-dot)."),
    click.Option(["--when"], type=click.Choice(["before", "after"]), help="Attention before the cell, or after it."),
    click.Option(["--reader"], type=click.Choice(["attention", "mean", "none"]), help="How the decoder reads."),
    click.Option(["--feeding"], is_flag=True, default=None, help="What was read is an input of the next step."),
    click.Option(["--mixer"], help="Mixes the decoder's positions: attention, mamba, linear-rnn, ..."),
    click.Option(["--batch"], type=int, help="Target tokens in a step."),
]


@command.command("translate", params=OWN + [each for each in lm.params if each.name in SHARED])
def translate(as_json: bool, **options: Any) -> None:
    """Train a translator on sentence pairs: two files line by line, one file of pairs, or the phrasebook.

    Pairs may come as .tsv, .jsonl, .tmx, .po, .mo or .parquet, each also gzipped. With only those given, everything
    else is chosen and shown.
    """
    train_pairs("translate", as_json, **options)


def train_pairs(
    task: str, as_json: bool, *, files: tuple[str, ...], valid: tuple[str, str] | None, valid_pairs: str | None,
    assignments: tuple[str, ...], **options: Any,
) -> None:
    from regard.training.run import Order, carry_out

    held_out = valid or ((valid_pairs,) if valid_pairs else ())
    tables = settings_from({**options, "valid": held_out}, assignments)
    for flag, (table, name) in OWN_FLAGS.items():
        if (said := options.pop(flag)) is not None:
            tables.setdefault(table, {}).setdefault(name, said)
    trained = carry_out(Order(
        files, task=task, settings=tables, **{k: v for k, v in options.items() if k not in FLAGS}))
    if as_json:
        from regard.cli.output import print_json

        print_json({"run": str(trained.path), "family": trained.family, "parameters": trained.parameters,
                    **last_metrics(trained)})
