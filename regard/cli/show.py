"""`regard show`: the map of what a model read of a text, in the terminal or in a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.options import DEVICE, TRUST, print_json

if TYPE_CHECKING:
    from regard.look.render.drawing import Drawing

MOST_ROWS = 100                # of a map in the terminal; of a longer one, one row is printed


@click.command("show")
@click.argument("run")
@click.argument("text", metavar="TEXT|FILE|IMAGE|-")
@click.option("--target", help="The target to look at, of a translator or captioner.  [default: the one it writes]")
@click.option("--new-tokens", type=click.IntRange(0, 4096), default=0, help="First generate so many tokens after TEXT.")
@click.option("--track", default="",
              help="What to show: self, cross, encoder, kernel, back-off, patches, influence-gradient...")
@click.option("--influence", type=click.Choice(["gradient", "sensitivity", "occlusion"]),
              help="Show how much each token matters for each prediction, of any model.")
@click.option("--layer", default="mean", show_default=True, help="A layer from 1, or mean, max or rollout.")
@click.option("--head", default="mean", show_default=True, help="A head from 1, or mean or max.")
@click.option("--row", type=int, help="Print what this row reads most; rows count from 0.")
@click.option("--words", is_flag=True, help="Join the pieces of words.")
@click.option("-o", "--out", metavar="FILE", help="Write a .html, .svg, .png, .csv, .npz, .txt or .json file.")
@click.option("--json", "as_json", is_flag=True, help="Print the tokens, the predictions and the numbers as JSON.")
@click.option("--width", type=click.IntRange(20), help="Columns of the terminal to draw in.")
@DEVICE
@TRUST
def command(
    run: str, text: str, target: str | None, new_tokens: int, track: str, influence: str | None, layer: str, head: str,
    row: int | None, words: bool, out: str | None, as_json: bool, width: int | None, device: str, trust: bool,
) -> None:
    """Draw what the model in the folder RUN reads of a text: TEXT itself, a FILE of it, - for stdin, or an IMAGE."""
    from regard.errors import SettingError
    from regard.look.render.drawing import FORMS
    from regard.notebook import show
    from regard.trained import load

    if influence and track:
        raise SettingError(f"--influence {influence} and --track {track}: give one of them")
    if out is not None and Path(out).suffix.lower() not in FORMS:
        raise SettingError(f"--out {out} must end in {', '.join(FORMS)}")
    model = load(run, device, trust=trust)
    shown = show(model, read_text(model, text), target=target, new_tokens=new_tokens, track=track, influence=influence,
                 layer=layer, head=head, row=row, words=words)
    drawing = replace(shown.drawing, name=Path(run).resolve().name)
    for note in drawing.look.notes:
        click.echo(f"({note})", err=True)
    if out is not None:
        drawing.save(out)
        click.echo(f"(written: {out})", err=True)
    elif as_json:
        view = {"track": drawing.track, "layer": drawing.layer, "head": drawing.head, "rows": drawing.row_names(),
                "columns": drawing.column_names(), "values": drawing.values().tolist()}
        print_json({**drawing.look.as_dict(), "view": view})
    elif row is None and len(drawing.row_names()) <= MOST_ROWS:
        draw(drawing, width)
    else:
        print_row(drawing)


def read_text(model: Any, text: str) -> str:
    """Return the text itself, or that of the file of this name; the name of a picture stays one."""
    from regard.data.reading.readers import every_line

    if model.task.card.reads == "image":
        return text
    if text != "-" and not is_file(text):
        return text
    return "\n".join(every_line(text, "fail"))


def is_file(text: str) -> bool:
    try:
        return "\n" not in text and Path(text).is_file()
    except OSError:                                          # too long for a name
        return False


def draw(drawing: Drawing, width: int | None) -> None:
    from rich.console import Console

    from regard.look.render.terminal import show

    show(drawing.map(), Console(width=width, file=sys.stdout))
    click.echo(f"{drawing.chosen.badge}. {drawing.chosen.about}")


def print_row(drawing: Drawing) -> None:
    """Print what one row reads most, and what it predicts."""
    from regard.look.render.drawing import top_of_row

    names = drawing.row_names()
    row = drawing.row if drawing.row is not None else drawing.chosen.shape[2] - 1
    click.echo(f"{drawing.title()}: row {row} of {len(names)}" + ("" if drawing.words else f", {names[row]!r}"))
    for name, value in top_of_row(drawing):
        click.echo(f"  {value:>10.4g}  {name}")
    if drawing.chosen.rows == drawing.look.written:
        said = drawing.look.predictions[row]
        click.echo(f"{'guesses' if said.guess else 'predicts'} {said.piece!r}: {said.bits:.2f} bits, rank {said.rank}")
    if drawing.row is None:
        click.echo(f"({len(names):,} rows are too many to draw here: give --row, or write -o map.html)", err=True)
