"""`regard pull`: a run comes from the Hugging Face hub."""

from __future__ import annotations

import click

from regard.cli.options import JSON, print_json, tell


@click.command("pull")
@click.argument("name", metavar="OWNER/NAME")
@click.option("-o", "--out", metavar="RUN", help="Where to write the run.  [default: runs/NAME]")
@click.option("--revision", metavar="REV", help="A branch, a tag or a commit.  [default: main]")
@JSON
def command(name: str, out: str | None, revision: str | None, as_json: bool) -> None:
    """Download the run that was pushed as OWNER/NAME, compare each file with its hash, and write it whole or not at
    all.

    This opens a connection to the hub. Of the repository only the files of a run are fetched, and none of its code.
    """
    from regard.interop.pulling import pull

    done = pull(name, out, revision=revision, say=tell)
    if as_json:
        print_json({"run": str(done.path), "name": done.name, "commit": done.commit, "files": done.files,
                    "bytes": done.size, "code": done.code, "seconds": done.seconds})
        return
    click.echo(f"{done.path}  {len(done.files)} files, {done.size / 1e6:.1f} MB in {done.seconds:.1f} s, as they were "
               "pushed")
    for layer in done.code:
        click.echo(f"it is made of {layer}, code that was not fetched: --trust imports your own copy of it")
