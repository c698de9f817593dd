"""`regard translate`: one line in, one line out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from regard.cli.options import DEVICE, ENGINE, TRUST, WORKERS, answer_over_files, is_over_files, tell


@click.command("translate")
@click.argument("run")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--beam", type=int, default=5, show_default=True, help="Beams; 1 is greedy.")
@click.option("--length-penalty", type=float, default=1.0, show_default=True,
              help="Scores are log p / tokens^penalty: 0 prefers short translations.")
@click.option("--coverage", type=float, default=0.0, help="Penalty for source words that no attention reads.")
@click.option("--no-repeat", type=int, default=0, help="Write no n-gram of so many tokens twice.")
@click.option("--n-best", type=int, default=1, show_default=True,
              help="Several translations per line: index ||| text ||| score.")
@click.option("--sample", is_flag=True, help="Draw translations instead of searching for the best.")
@click.option("--temperature", type=float, default=1.0, show_default=True,
              help="With --sample: below 1 unlikely tokens become rarer; 0 is greedy.")
@click.option("--seed", default=0, show_default=True, help="Seed of --sample.")
@click.option("--scores", is_flag=True, help="Print text ||| score.")
@click.option("--alignments", is_flag=True, help="Print text ||| which source word each word reads most, as 0-0 1-2.")
@click.option("--words", type=click.Choice(["word", "whitespace"]), default="word", show_default=True,
              help="What a word is in alignments: punctuation apart, or split at spaces only.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("-o", "--out", metavar="FILE|FOLDER",
              help="Write there, when all is done; a folder for several files.")
@click.option("--batch", type=int, help="Source tokens per batch, counted once per beam; changes no result.")
@click.option("--on-bad-text", type=click.Choice(["fail", "replace"]), default="fail", show_default=True,
              help="What to do with bad UTF-8.")
@WORKERS
@ENGINE
@DEVICE
@TRUST
def command(**options: Any) -> None:
    """Translate each line of FILE (or of stdin) with the model in the folder RUN. Empty lines stay empty.

    Several files or a folder are translated into the folder --out, a file for each; with --workers by several
    processes. A job that was interrupted goes on where it was, by the same command.
    """
    line_by_line("translate", **options)


def line_by_line(
    task: str, run: str, files: tuple[str, ...], out: str | None, on_bad_text: str, engine: str, device: str,
    trust: bool, workers: int | None, **named: Any,
) -> None:
    """Translate or summarise line by line, and print each result as it comes, or write all to --out."""
    from regard import storage
    from regard.data.reading.readers import every_line
    from regard.tasks.translate.answer import format_lines, options_of
    from regard.tasks.translate.engine import refuse_options
    from regard.trained import load

    # Made before anything is read: a wrong option is refused at once.
    options = options_of(named)
    if engine != "own":
        refuse_options(options, engine)
    if is_over_files(files, workers):
        answer_over_files(run, files, out, workers=workers, task=task, device=device, trust=trust, engine=engine,
                          on_bad_text=on_bad_text, **named)
        return
    model: Any = load(run, device, trust=trust, task=task)
    if engine != "own":
        from regard.interop.ct2_engine import open_engine

        model.engine = open_engine(model, engine, lambda text: tell(f"({text})"))
    file = files[0] if files else "-"
    at_once = {"at_a_time": 1} if file == "-" and sys.stdin.isatty() else {}
    notices: list[str] = []
    results = model.stream(every_line(file, on_bad_text), notice=notices.append, options=options, **at_once)
    lines = (line for number, each in enumerate(results)
             for line in format_lines(number, each, options, named["scores"], named["as_json"]))
    if out is None:
        for line in lines:
            click.echo(line)
            sys.stdout.flush()
    else:
        storage.write_file(Path(out), "".join(f"{line}\n" for line in lines))
    for notice in notices:
        click.echo(f"({notice})", err=True)
