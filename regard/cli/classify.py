"""`regard classify`: one text in, its label out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice

import click

from regard.cli.options import print_json

AT_ONCE = 256                  # lines that are read together; of one who types, each by itself


@click.command("classify")
@click.argument("run")
@click.argument("file", default="-", metavar="[FILE|-]")
@click.option("--top", type=click.IntRange(min=1), default=1, show_default=True,
              help="Labels of each text, likeliest first, separated by tabs.")
@click.option("--probabilities", is_flag=True, help="Print the probability after each label.")
@click.option("--on-bad-text", type=click.Choice(["fail", "replace"]), default="fail")
@click.option("--device", default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line: the text, and its labels.")
def command(
    run: str, file: str, top: int, probabilities: bool, on_bad_text: str, device: str, as_json: bool
) -> None:
    """Give each line of FILE (or of stdin) its label, by the classifier in the folder RUN: one line in, one line out.

        echo "Le chat dort." | regard classify runs/origins-classify-window --top 2 --probabilities
    """
    from regard.trained import load

    model = load(run, device, task="classify")
    for some in read_batches(file, on_bad_text):
        for text, guesses in zip(some, model.classify(some, top=top), strict=True):
            if as_json:
                print_json({"text": text, "labels": [guess._asdict() for guess in guesses]})
            else:
                click.echo("\t".join(f"{guess.label} {guess.probability:.4f}" if probabilities else guess.label
                                     for guess in guesses))


def read_batches(file: str, on_bad_text: str) -> Iterator[list[str]]:
    """Yield the lines of a file, some at a time."""
    from regard.data.reading.readers import every_line

    lines = every_line(file, on_bad_text)
    while some := list(islice(lines, 1 if file == "-" and sys.stdin.isatty() else AT_ONCE)):
        yield some
