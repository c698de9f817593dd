"""`regard push`: a run goes to the Hugging Face hub."""

from __future__ import annotations

import click

from regard.cli.options import JSON, TRUST, print_json, tell


@click.command("push")
@click.argument("run")
@click.argument("name", metavar="OWNER/NAME")
@click.option("--to", type=click.Choice(["auto", "hf", "run"]), default="auto", show_default=True,
              help="hf: transformers must be able to open it; run: the run alone; auto: what its settings allow.")
@click.option("--private", is_flag=True, help="Make a repository that only you can see.")
@click.option("--revision", metavar="BRANCH", help="The branch to push to, made if it is missing.  [default: main]")
@click.option("--message", metavar="TEXT", help="Of the commit.  [default: the version of Regard]")
@click.option("--check/--no-check", default=True, help="Open the export in transformers, and compare.  [default: "
              "check]")
@TRUST
@JSON
def command(
    run: str, name: str, to: str, private: bool, revision: str | None, message: str | None, check: bool, trust: bool,
    as_json: bool,
) -> None:
    """Upload RUN to the Hugging Face hub as OWNER/NAME: the run itself, which `regard pull` brings back, what
    transformers opens, if the settings allow it, and a model card of what was measured.

    This opens a connection to the hub. Log in before, by `hf auth login` or the variable HF_TOKEN.
    """
    from regard.interop.pushing import push

    done = push(run, name, to=to, private=private, revision=revision, message=message, check=check, trust=trust,
                say=tell)
    if as_json:
        checked = done.checked and {each: getattr(done.checked, each) for each in ("program", "version", "difference")}
        print_json({"name": done.name, "url": done.url, "commit": done.commit, "kind": done.kind, "files": done.files,
                    "bytes": done.size, "removed": done.removed, "checked": checked, "notes": done.notes})
        return
    opened = f", opens as {done.kind}" if done.kind else ""
    click.echo(f"{done.url}  {len(done.files)} files, {done.size / 1e6:.1f} MB{opened}")
    if done.checked is not None:
        click.echo(done.checked.describe())
    for note in done.notes:
        click.echo(note)
