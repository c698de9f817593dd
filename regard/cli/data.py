"""`regard data`: the embedded corpora (lines, pairs, pictures, labelled texts), and what a text holds."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click

from regard.cli.options import print_json


@click.group("data")
def command() -> None:
    """The embedded corpora, and what a text file holds."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True)
def list_corpora(as_json: bool) -> None:
    """The corpora that come with Regard: lines of text, pairs of texts, pictures with captions, and labelled texts.

    Training reads train, and chooses the best weights by valid. `regard score` and `regard compare` measure on test.
    unseen holds known words in combinations that the other parts lack.
    """
    from regard.data.embedded import PARTS, UNSEEN, every, size

    rows: list[dict[str, Any]] = [{
        "name": name, "about": corpus.description, "count": corpus.count, "unit": corpus.unit,
        "parts": {part: size(name, part) for part in corpus.parts}} for name, corpus in every().items()]
    if as_json:
        print_json(rows)
        return
    parts = (*PARTS, UNSEEN)
    click.echo(f"{'':<10} " + " ".join(f"{part:>8}" for part in parts))
    for row in rows:
        sizes = " ".join(f"{row['parts'][part]:>8,}" if part in row["parts"] else f"{'–':>8}" for part in parts)
        click.echo(f"{row['name']:<10} {sizes}  {row['unit']:<8}  {row['about']}")


PART = click.option("--part", type=click.Choice(["train", "valid", "test", "unseen"]), default="train",
                    show_default=True, help="Which part of an embedded corpus.")


@command.command("show")
@click.argument("name")
@PART
@click.option("--lines", type=click.IntRange(min=0), default=5, show_default=True,
              help="How many lines, pairs or pictures of a corpus.")
@click.option("-o", "--out", metavar="FILE.png", help="Also write the pictures, on one sheet, to this file.")
def show(name: str, part: str, lines: int, out: str | None) -> None:
    """Print the first lines, pairs or captions of an embedded corpus, or count what is in a text file.

    Under the caption of a picture stands where the things are that it names, 1, 2 and 3 in the order of the words. The
    sizes of the parts, and prompts to try with a model of the corpus, go to stderr.
    """
    from regard.data import embedded
    from regard.errors import SettingError

    corpus = None if Path(name).exists() else embedded.every().get(name)
    if out is not None and (corpus is None or corpus.unit != "pictures"):
        raise SettingError(f"--out {out}: only pictures are drawn, and {name} has none; leave it out")
    if out is not None and (not lines or not out.lower().endswith(".png")):
        raise SettingError(f"--out {out}: the sheet is a PNG file of at least one picture; name one that ends in .png")
    if corpus is None:
        if click.get_current_context().get_parameter_source("part") == click.core.ParameterSource.COMMANDLINE:
            raise SettingError(f"--part {part} is of an embedded corpus, and {name} is none: leave it out")
        _count(name)
        return
    shown = list(embedded.items(name, part, lines))
    for item in shown:
        click.echo(corpus.show(item) + "\n" * (corpus.unit in ("pairs", "pictures")))
    if out is not None:
        _write_sheet([picture.image for picture in shown], Path(out))
    _tell_parts(name)


def _tell_parts(name: str) -> None:
    """Print the sizes of a corpus's parts, and prompts to try with a model of it, to stderr."""
    from regard.data import embedded

    corpus = embedded.every()[name]
    sizes = " · ".join(f"{part} {embedded.size(name, part):,}" for part in corpus.parts)
    click.echo(f"({sizes} {corpus.unit})", err=True)
    for prompt in corpus.prompts:
        click.echo(f"(to try: regard generate RUN --greedy --tokens 1 --prompt {shlex.quote(prompt)})", err=True)


def _write_sheet(images: list[Any], path: Path) -> None:
    import numpy as np

    from regard.corpora.shapes import png, sheet
    from regard.storage import write_file

    write_file(path, png(sheet(np.stack(images))))
    click.echo(f"({len(images):,} pictures in {path})", err=True)


def _count(name: str) -> None:
    """Print how many characters, words and documents a file or folder of text has."""
    from regard.data.reading.readers import ReadSettings, find_sources, read
    from regard.data.reading.tally import Tally

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
@PART
@click.option("--out", metavar="FILE|FOLDER", help="Where to write it; pairs go to a file a side (FILE.fr and FILE.en, "
              "FILE.document and FILE.gist) and FILE.align.  [default: NAME.txt; NAME for pairs; NAME-pictures; of "
              "another part than train NAME-PART.txt, and so on]")
@click.option("--lines", type=click.IntRange(min=0), help="How many lines, pairs or pictures.  [default: all]")
def get(name: str, part: str, out: str | None, lines: int | None) -> None:
    """Write a part of an embedded corpus to disk, as the commands that train take it.

    Lines of text become a file, for `regard train lm`. Pairs become a file for each side, line by line, for `regard
    train translate` (phrasebook) or `regard train summarise` (gists), and their word alignment. Pictures become a
    folder of PNG files with captions.tsv, for `regard train caption`, and with regions.jsonl: where each word is.
    """
    from regard.data import embedded
    from regard.errors import DataError, did_you_mean
    from regard.storage import write_file

    if name not in embedded.every():
        raise DataError(f"there is no corpus {name}{did_you_mean(name, embedded.every())}")
    corpus, stem = embedded.every()[name], name if part == "train" else f"{name}-{part}"
    if corpus.write is not None:
        number = min(embedded.size(name, part), sys.maxsize if lines is None else lines)
        path = corpus.write(Path(out or f"{stem}-pictures"), number, 0, part)
        click.echo(f"{number:,} pictures in {path}, with captions.tsv and regions.jsonl")
        return
    items = list(embedded.items(name, part, lines))
    if corpus.unit == "pairs":
        files = {f"{out or stem}{suffix}": [getattr(pair, side) for pair in items] for suffix, side in zip(
            (*corpus.suffixes, ".align"), ("source", "target", "pharaoh"), strict=True)}
    else:
        files = {out or f"{stem}{corpus.suffixes[0]}": [corpus.show(item) for item in items]}
    for file, texts in files.items():
        write_file(Path(file), "".join(f"{text}\n" for text in texts))
    *most, last = files
    click.echo(f"{len(items):,} {corpus.unit} in {', '.join(most)}{' and ' * bool(most)}{last}")


@command.command("cache")
@click.option("--clear", is_flag=True, help="Remove it; what is needed again is made again.")
@click.option("--older-than", "days", type=click.FloatRange(min=0), default=0.0, metavar="DAYS",
              help="Only what was not used for so long.")
@click.option("--json", "as_json", is_flag=True)
def cache(clear: bool, days: float, as_json: bool) -> None:
    """Show what the cache holds (surveys, tokenizers and shards of texts, compiled code), and when it was last used.

    It lies in ~/.cache/regard, or where REGARD_CACHE says. Runs do not need it.
    """
    from regard import storage
    from regard.data.reading.text_cache import entries

    folder, now = storage.cache_folder(), time.time()
    old = entries(folder, days * 86_400)
    if clear:
        for entry in old:
            storage.remove(entry.path)
    kinds = {kind: [entry for entry in old if entry.kind == kind] for kind in dict.fromkeys(e.kind for e in old)}
    rows: list[dict[str, Any]] = [
        {"kind": kind, "entries": len(own), "bytes": sum(entry.size for entry in own),
         "idle_days": round((now - max(entry.used for entry in own)) / 86_400, 2)} for kind, own in kinds.items()]
    if as_json:
        print_json({"folder": str(folder), "cleared": clear, "kinds": rows})
        return
    for row in rows:
        days_ago = round(row["idle_days"])
        idle = ("today", "yesterday")[days_ago] if days_ago < 2 else f"{days_ago:,} days ago"
        click.echo(f"{row['kind']:<10} {row['entries']:>8,} {_bytes(row['bytes']):>12}   last used {idle}")
    total = f"{_bytes(sum(entry.size for entry in old))} in {folder}"
    click.echo(f"{total}: " + ("removed" if clear else "regard data cache --clear removes it") if old else
               f"nothing{f' unused for {days:g} days' if days else ''} in {folder}")


def _bytes(number: int) -> str:
    return f"{number / 1e6:,.1f} MB" if number >= 1e5 else f"{number / 1e3:,.1f} KB"


@command.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--valid", multiple=True, metavar="FILE", help="Held-out text.  [default: the last 10%, as in training]")
@click.option("--test", multiple=True, metavar="FILE", help="Text to report on.  [default: half of what is held "
              "out, as in training]")
@click.option("--run", metavar="RUN", help="Also show the bits per byte of this language model on lines that stand in "
              "the training part and on the others.")
@click.option("--json", "as_json", is_flag=True)
def check(
    files: tuple[str, ...], valid: tuple[str, ...], test: tuple[str, ...], run: str | None, as_json: bool
) -> None:
    """Find held-out lines that stand in the training part too, word for word or nearly, and count them."""
    from regard.data.reading.corpus import DataSettings
    from regard.data.reading.overlap import LEAST, check_overlap
    from regard.tasks import USUAL
    from regard.trained import load

    lines, overlaps = check_overlap(DataSettings(files, valid=valid, test=test, halve=True))
    model = None if run is None else load(run, task=USUAL)
    rows = [each.as_dict() for each in overlaps]
    for row, each in zip(rows, overlaps, strict=True):
        row |= {} if model is None else {"bits_per_byte": model.score_overlap(each)}
    if as_json:
        print_json({"train": lines, "parts": rows})
        return
    click.echo(f"{'train':<6} {lines:,} lines")
    for row, each in zip(rows, overlaps, strict=True):
        whole = max(1, len(each.lines))
        click.echo(f"{each.part:<6} {len(each.lines):,} lines of {LEAST} words or more: {len(each.same):,} "
                   f"({len(each.same) / whole:.1%}) stand in train word for word, {len(each.near):,} "
                   f"({len(each.near) / whole:.1%}) nearly")
        for line, other in each.examples():
            click.echo(f"       {line[:100]}" + ("" if line == other else f"\n       ~ {other[:100]}"))
        if model is not None:
            click.echo("       bits per byte: " + " · ".join(
                f"{name} {value:.4f}" for name, value in row["bits_per_byte"].items() if value is not None))
