"""`regard train caption`: from captioned pictures to a captioner."""

from __future__ import annotations

from typing import Any

import click

from regard.cli.train import FLAGS, command, last_metrics, lm, settings_from
from regard.families import names

FAMILIES = ", ".join(names.CAPTION)
# The options of `regard train lm` that mean the same here.
SHARED = ("out", "tokenizer", "vocab", "on_bad_text", "params", "layers", "width", "heads", "hidden", "context",
          "dropout", "rate", "steps", "tokens", "minutes", "seed", "device", "resume", "start_over", "base",
          "assignments", "tensorboard", "quiet", "as_json")
# flag -> (table, setting) of run.toml
OWN_FLAGS = {"patch": ("model", "patch"), "stem": ("model", "stem"), "score": ("model", "score"),
             "cell": ("model", "cell"), "when": ("model", "when"), "reader": ("model", "reader"),
             "encoder_layers": ("model", "encoder_layers"), "on_bad_image": ("data", "on_bad_image")}
OWN = [
    click.Argument(["files"], nargs=-1, required=True, metavar="FOLDER|CAPTIONS"),
    click.Option(["--family"], help=f"Kind of captioner: {FAMILIES}.  [default: rnn-attention]"),
    click.Option(["--valid"], metavar="FOLDER|CAPTIONS", help="Held-out pictures.  [default: the last 10%]"),
    click.Option(["--image"], type=int, help="Pixels along a side, to which pictures are brought.  [default: 48]"),
    click.Option(["--patch"], type=int, help="Pixels along a side of a patch.  [default: 8]"),
    click.Option(["--stem"], type=click.Choice(["linear", "conv"]), help="How a patch becomes a vector."),
    click.Option(["--encoder-layers"], type=int, help="Blocks of attention over the patches."),
    click.Option(["--cell"], type=click.Choice(["rnn", "relu", "gru", "lstm"]), help="Cell of a recurrent decoder."),
    click.Option(["--score"], help="e(q, k): dot, scaled-dot, bilinear, low-rank, additive, location."),
    click.Option(["--when"], type=click.Choice(["before", "after"]), help="Attention before the cell, or after it."),
    click.Option(["--reader"], type=click.Choice(["attention", "mean", "none"]), help="How the decoder reads."),
    click.Option(["--on-bad-image"], type=click.Choice(["fail", "drop"]), help="What to do with broken pictures."),
    click.Option(["--batch"], type=int, help="Tokens of captions in a step."),
]


@command.command("caption", params=OWN + [each for each in lm.params if each.name in SHARED])
def caption(
    files: tuple[str, ...], valid: str | None, image: int | None, assignments: tuple[str, ...], as_json: bool,
    **options: Any,
) -> None:
    """Train a captioner on a folder of pictures with captions.tsv or captions.jsonl in it, or on `shapes`.

    captions.tsv has a file name, a tab and a caption a line; captions.jsonl {"image": ..., "caption": ...}.
    """
    from regard.training.run import Order, carry_out

    tables = settings_from({**options, "valid": (valid,) if valid else ()}, assignments)
    for flag, (table, name) in OWN_FLAGS.items():
        if (said := options.pop(flag)) is not None:
            tables.setdefault(table, {}).setdefault(name, said)
    if image is not None:
        for table, name in (("data", "size"), ("model", "image")):
            tables.setdefault(table, {}).setdefault(name, image)
    trained = carry_out(Order(
        files, task="caption", settings=tables, **{k: v for k, v in options.items() if k not in FLAGS}))
    if as_json:
        from regard.cli.output import print_json

        print_json({"run": str(trained.path), "family": trained.family, "parameters": trained.parameters,
                    **last_metrics(trained)})
