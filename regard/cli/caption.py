"""`regard caption`: a caption a line for pictures; and the patches that each word read, painted over the picture."""

from __future__ import annotations

from pathlib import Path

import click

from regard.cli.options import DEVICE, TRUST, WORKERS, answer_over_files, is_over_files

WRITTEN = (".txt", ".tsv", ".jsonl")         # an --out of captions; others are painted


@click.command("caption")
@click.argument("run")
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
@click.option("--beam", type=int, default=5, show_default=True, help="Beams; 1 is greedy.")
@click.option("--n-best", type=int, default=1, show_default=True,
              help="Several captions per picture: file ||| text ||| score.")
@click.option("--length-penalty", type=float, default=1.0, show_default=True, help="0 prefers short captions.")
@click.option("-o", "--out", metavar="FILE",
              help=".png or .html: paint what each word read over the (only) picture. .txt, .tsv or .jsonl: the "
                   "captions.")
@click.option("--layer", type=int, help="With --out: this layer, counted from 1.  [default: the mean of all]")
@click.option("--head", type=int, help="With --out: this head, counted from 1.  [default: the mean of all]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per picture.")
@WORKERS
@DEVICE
@TRUST
def command(
    run: str, images: tuple[str, ...], beam: int, n_best: int, length_penalty: float, out: str | None,
    layer: int | None, head: int | None, as_json: bool, workers: int | None, device: str, trust: bool,
) -> None:
    """Caption each IMAGE with the model in the folder RUN.

    With --out FILE.txt, .tsv or .jsonl an IMAGE may be a folder, --workers share the work, and an interrupted job
    continues.

    A picture that cannot be read is one line on stderr, and the exit code is then 1; the others are captioned.
    """
    from regard.errors import SettingError
    from regard.tasks.caption.answer import format_caption
    from regard.trained import load

    if is_over_files((), workers) or (out is not None and Path(out).suffix in WRITTEN):
        answer_over_files(run, images, out, workers=workers, task="caption", device=device, trust=trust, beam=beam,
                          n_best=n_best, length_penalty=length_penalty, as_json=as_json)
        return
    if out is not None and len(images) != 1:
        raise SettingError(f"--out {out} paints one picture, and {len(images)} were given: name one")
    model = load(run, device, trust=trust, task="caption")
    pictures, bad = model.load_good(images)
    captions = model.caption(pictures, beam=beam, n_best=n_best, length_penalty=length_penalty,
                             attention=out is not None)
    names = [name for place, name in enumerate(images) if place not in bad]
    for name, each in zip(names, captions, strict=True):
        alone = len(images) == 1 and n_best == 1 and not as_json
        click.echo(each.text if alone else format_caption(name, each, {"as_json": as_json, "n_best": n_best}))
    if out is not None and captions:
        from regard.look.render.painting import paint

        paint(pictures[0], captions[0], model.grid, out, layer=layer, head=head)
        click.echo(f"(painted: {out})", err=True)
    for number, mistake in enumerate(bad.values(), 1):
        if number == len(bad):
            raise mistake                                # the last is raised, for the exit code
        click.echo(f"regard: {mistake}", err=True)
