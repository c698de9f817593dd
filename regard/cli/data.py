"""`regard data`: the embedded corpora, and what a text holds."""

from __future__ import annotations

import click


@click.group("data")
def command() -> None:
    """The embedded corpora, and what a text file holds."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True)
def list_corpora(as_json: bool) -> None:
    """The corpora that come with Regard."""
    from regard.cli.output import print_json
    from regard.text.embedded import CORPORA

    rows = [{"name": name, "about": corpus.description, "lines": corpus.count} for name, corpus in CORPORA.items()]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo(f"{row['name']:<10} {row['lines']:>8,} lines   {row['about']}")


@command.command("show")
@click.argument("name")
@click.option("--lines", type=click.IntRange(min=0), default=5, show_default=True, help="How many lines of a corpus.")
def show(name: str, lines: int) -> None:
    """Print the first lines of an embedded corpus, or count what is in a text file."""
    from itertools import islice

    from regard.text import embedded

    if embedded.known([name]):
        for line in islice(embedded.lines(name), lines):
            click.echo(line)
        return
    from regard.text.readers import ReadSettings, find_sources, read
    from regard.text.tally import Tally

    tally, characters, words = Tally(), 0, 0
    distinct: set[str] = set()
    for piece in read(find_sources([name]), ReadSettings(documents="file"), tally):
        characters, words = characters + len(piece.text), words + len(piece.text.split())
        distinct.update(piece.text)
    click.echo(tally.line())
    click.echo(f"{characters:,} characters ({len(distinct):,} distinct), {words:,} words, {tally.documents:,} "
               + ("document" if tally.documents == 1 else "documents"))


@command.command("get")
@click.argument("name")
@click.option("--out", metavar="FILE", help="Where to write it.  [default: NAME.txt]")
@click.option("--lines", type=click.IntRange(min=0), help="How many lines.  [default: all]")
def get(name: str, out: str | None, lines: int | None) -> None:
    """Write an embedded corpus to a text file."""
    from itertools import islice
    from pathlib import Path

    from regard.errors import DataError, did_you_mean
    from regard.storage import write_file
    from regard.text import embedded

    if name not in embedded.CORPORA:
        raise DataError(f"there is no corpus {name}{did_you_mean(name, embedded.CORPORA)}")
    path = Path(out or f"{name}.txt")
    text = "".join(f"{line}\n" for line in islice(embedded.lines(name), lines))
    write_file(path, text)
    click.echo(f"{text.count(chr(10)):,} lines in {path}")
