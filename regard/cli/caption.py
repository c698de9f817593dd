"""`regard caption`: a caption a line for pictures; and the patches that each word read, painted over the picture."""

from __future__ import annotations

import click

from regard.cli.options import DEVICE, TRUST, print_json


@click.command("caption")
@click.argument("run")
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
@click.option("--beam", type=int, default=5, show_default=True, help="Beams; 1 is greedy.")
@click.option("--n-best", type=int, default=1, show_default=True, help="Several a picture: file ||| text ||| score.")
@click.option("--length-penalty", type=float, default=1.0, show_default=True, help="0 prefers short captions.")
@click.option("-o", "--out", metavar="FILE.png|.html",
              help="Paint what each word read over the (only) picture.")
@click.option("--layer", type=int, help="With --out: this layer, counted from 1.  [default: the mean of all]")
@click.option("--head", type=int, help="With --out: this head, counted from 1.  [default: the mean of all]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a picture.")
@DEVICE
@TRUST
def command(
    run: str, images: tuple[str, ...], beam: int, n_best: int, length_penalty: float, out: str | None,
    layer: int | None, head: int | None, as_json: bool, device: str, trust: bool,
) -> None:
    """Say what is on each IMAGE with the model in the folder RUN.

    A picture that cannot be read is one line on stderr, and the exit code is then 1; the others are captioned.
    """
    from regard.errors import SettingError
    from regard.trained import load

    if out is not None and len(images) != 1:
        raise SettingError(f"--out {out} paints one picture, and {len(images)} were given: name one")
    model = load(run, device, trust=trust, task="caption")
    pictures, bad = model.load_good(images)
    captions = model.caption(pictures, beam=beam, n_best=n_best, length_penalty=length_penalty,
                             attention=out is not None)
    names = [name for place, name in enumerate(images) if place not in bad]
    for name, each in zip(names, captions, strict=True):
        if as_json:
            print_json({"image": name, "text": each.text, "score": each.score, "log_prob": each.log_prob,
                        "n_best": [{"text": text, "score": score} for text, score in each.n_best]})
        elif n_best > 1:
            for text, score in each.n_best:
                click.echo(f"{name} ||| {text} ||| {score:.4f}")
        else:
            click.echo(each.text if len(images) == 1 else f"{name}\t{each.text}")
    if out is not None and captions:
        from regard.look.render.painting import paint

        paint(pictures[0], captions[0], model.grid, out, layer=layer, head=head)
        click.echo(f"(painted: {out})", err=True)
    for number, mistake in enumerate(bad.values(), 1):
        if number == len(bad):
            raise mistake                                # the last is raised, for the exit code
        click.echo(f"regard: {mistake}", err=True)
