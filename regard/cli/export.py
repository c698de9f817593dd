"""`regard export`: a trained model for another program, opened there and compared."""

from __future__ import annotations

import click

from regard.cli.options import JSON, TRUST, print_json
from regard.interop import TARGETS

PRECISIONS = sorted({precision for row in TARGETS.values() for precision in row.precisions})


@click.command("export")
@click.argument("run")
@click.option("--to", required=True, type=click.Choice(list(TARGETS)), help="; ".join(
    f"{name}: {row.about}" for name, row in TARGETS.items()) + ".")
@click.option("-o", "--out", metavar="PATH", help="Where to write.  [default: RUN-TO in this folder]")
@click.option("--precision", type=click.Choice(PRECISIONS), help="Of the weights.  [default: float32]")
@click.option("--check/--no-check", default=True, help="Open what was written in its program, and compare.  "
              "[default: check]")
@TRUST
@JSON
def command(
    run: str, to: str, out: str | None, precision: str | None, check: bool, trust: bool, as_json: bool
) -> None:
    """Write the model in RUN for another program. Where that is installed it opens the result, and both are compared.

    A difference beyond the target's tolerance is an error, and nothing is left behind.
    """
    from regard.interop.export import export

    done = export(run, to, out, check=check, precision=precision, trust=trust)
    if as_json:
        checked = done.checked
        print_json({"path": str(done.path), "to": to, "kind": done.kind, "bytes": done.size, "seconds": done.seconds,
                    "beside": [str(path) for path in done.beside], "notes": done.notes,
                    "checked": None if checked is None else {
                        name: getattr(checked, name)
                        for name in ("program", "version", "difference", "choices", "same_text", "lines", "of")}})
        return
    click.echo(f"{done.path}  {done.kind}, {done.size / 1e6:.1f} MB in {done.seconds:.1f} s")
    for path in done.beside:
        click.echo(f"{path}")
    if done.checked is not None:
        click.echo(done.checked.describe())
    for note in done.notes:
        click.echo(note)
