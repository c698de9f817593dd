"""`regard fill`: candidates for the blanks of a text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from regard.cli.options import DEVICE, print_json


@click.command("fill")
@click.argument("run")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Candidates for each blank.")
@click.option("--length", type=click.IntRange(min=1),
              help="Tokens in a blank.  [default: one word; for parts of words and for letters, the number of tokens "
                   "that is likeliest by their average log-probability]")
@DEVICE
@click.option("--json", "as_json", is_flag=True, help="One JSON object per text.")
def command(run: str, texts: tuple[str, ...], top: int, length: int | None, device: str, as_json: bool) -> None:
    """Fill the blanks of each TEXT (or of each line of stdin) with the masked model in the folder RUN.

    A blank is written ___ (three or more) or [MASK]; a text may have several:

        regard fill runs/stories-masked-transformer "Tom had a ___ kite, and he lost it in the ___."
    """
    from regard.cli.vectors import read_lines
    from regard.trained import load

    model = load(run, device, task="masked")
    for number, text in enumerate(texts or read_lines(("-",), "fail")):
        filled = model.fill(text, top=top, length=length)
        if as_json:
            print_json({"given": text, **asdict(filled, dict_factory=without_ids)})
            continue
        click.echo("\n" * (number > 0) + filled.text)
        for place, candidates in enumerate(filled.blanks):
            if len(filled.blanks) > 1:
                click.echo(f"  blank {place + 1}")
            for each in candidates:
                click.echo(f"  {each.probability:7.2%}  {each.text}")


def without_ids(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if name != "tokens"}
