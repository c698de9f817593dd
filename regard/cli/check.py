"""`regard check`: the laws, tested on a layer or on a trained model."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from regard.cli.options import JSON, TRUST, print_json


@click.command("check")
@click.argument("what", metavar="RUN|MODULE:LAYER")
@TRUST
@JSON
def command(what: str, trust: bool, as_json: bool) -> None:
    """Test the laws on a layer of your own (module:Layer), or on the model of a run folder, whatever its task.

    A layer that passes can be trained, cut, padded, batched, reordered and watched like any built-in one. For a
    translator, summariser or captioner the encoder is tested too; for a masked model, its predictions of hidden tokens.
    """
    if ":" in what and not Path(what).exists():
        from regard.laws.check import check_object

        report = check_object(what)
    else:
        from regard.trained import load

        report = load(what, device="cpu", trust=trust).check_laws()
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(report.text())
    sys.exit(0 if report.ok else 1)
