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
    from regard.text.embedded import every

    rows = [{"name": name, "about": corpus.description, "lines": corpus.count}
            for name, corpus in every().items()]
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
    from pathlib import Path

    from regard.text import embedded

    if name in embedded.PAIRED and not Path(name).exists():
        for pair in islice(embedded.pairs(name), lines):
            click.echo(embedded.PAIRED[name].show(pair) + "\n")
        return
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
@click.option("--out", metavar="FILE", help="Where to write it; pairs go to FILE.fr, FILE.en and FILE.align."
              "  [default: NAME.txt, NAME for pairs]")
@click.option("--lines", type=click.IntRange(min=0), help="How many lines.  [default: all]")
def get(name: str, out: str | None, lines: int | None) -> None:
    """Write an embedded corpus to a text file, or one in two languages to a file for each and their alignment."""
    from itertools import islice
    from pathlib import Path

    from regard.errors import DataError, did_you_mean
    from regard.storage import write_file
    from regard.text import embedded

    if name in embedded.PAIRED:
        _get_pairs(name, out or name, lines)
        return
    if name not in embedded.CORPORA:
        raise DataError(f"there is no corpus {name}{did_you_mean(name, embedded.every())}")
    path = Path(out or f"{name}.txt")
    text = "".join(f"{line}\n" for line in islice(embedded.lines(name), lines))
    write_file(path, text)
    click.echo(f"{text.count(chr(10)):,} lines in {path}")


def _get_pairs(name: str, prefix: str, lines: int | None) -> None:
    """Line-aligned files, one a language, and the word alignment in Pharaoh format (0-0 1-2 ...)."""
    from itertools import islice
    from pathlib import Path

    from regard.storage import write_file
    from regard.text import embedded

    pairs = list(islice(embedded.pairs(name), lines))
    source, target = (Path(f"{prefix}.{language}") for language in embedded.PAIRED[name].languages)
    links = Path(f"{prefix}.align")
    for path, texts in ((source, [pair.source for pair in pairs]), (target, [pair.target for pair in pairs]),
                        (links, [pair.pharaoh for pair in pairs])):
        write_file(path, "".join(f"{text}\n" for text in texts))
    click.echo(f"{len(pairs):,} pairs in {source}, {target} and {links}")
