"""`regard generate`: continue a prompt, streaming."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from regard.cli.options import DEVICE, TRUST, print_json


@click.command("generate")
@click.argument("run")
@click.option("--prompt", default="", help="What to continue; - reads it from stdin.")
@click.option("--tokens", "new_tokens", default=256, show_default=True, help="Generate at most so many tokens.")
@click.option("--temperature", default=1.0, show_default=True,
              help="Below 1 unlikely tokens become rarer; 0 is greedy.")
@click.option("--top-k", default=0, help="Choose among the k likeliest tokens only.")
@click.option("--top-p", default=1.0, help="Choose among the likeliest tokens with together this probability.")
@click.option("--greedy", is_flag=True, help="Always the likeliest token.")
@click.option("--seed", default=0, show_default=True)
@click.option("-n", "--number", type=click.IntRange(min=1), default=1, show_default=True, help="How many texts.")
@DEVICE
@TRUST
@click.option("--json", "as_json", is_flag=True, help="One JSON object per text.")
def command(
    run: str, prompt: str, new_tokens: int, temperature: float, top_k: int, top_p: float, greedy: bool, seed: int,
    number: int, device: str, trust: bool, as_json: bool,
) -> None:
    """Continue a prompt with the model in the folder RUN."""
    from regard.decoding.sampling import Sampling
    from regard.trained import load

    sampling = Sampling(0.0 if greedy else temperature, top_k, top_p, seed)
    if prompt == "-":
        prompt = sys.stdin.read().removesuffix("\n")
    model = load(run, device, trust=trust, task="lm")
    notices: dict[str, None] = {}                    # each once, and after the text, which is not to be broken
    for row in range(number):
        pieces = model.stream(prompt, new_tokens=new_tokens, sampling=sampling, row=row, notice=notices.setdefault)
        if as_json:
            print_json({"prompt": prompt, "text": "".join(pieces), "seed": seed, "row": row})
        else:
            write(prompt, pieces, separated=row > 0)
    for notice in notices:
        click.echo(f"({notice})", err=True)


def write(prompt: str, pieces: Iterable[str], separated: bool) -> None:
    if separated:
        click.echo("---")
    click.echo(prompt, nl=False)
    for piece in pieces:
        click.echo(piece, nl=False)
        sys.stdout.flush()
    click.echo()
