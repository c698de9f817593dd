"""`regard translate`: one line in, one line out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from regard.cli.options import DEVICE, ENGINE, TRUST, format_json, tell

BAR = " ||| "                  # between the columns, as in Moses' n-best lists


@click.command("translate")
@click.argument("run")
@click.argument("file", default="-", metavar="[FILE]")
@click.option("--beam", type=int, default=5, show_default=True, help="Beams; 1 is greedy.")
@click.option("--length-penalty", type=float, default=1.0, show_default=True,
              help="Scores are log p / tokens^penalty: 0 prefers short translations.")
@click.option("--coverage", type=float, default=0.0, help="How much leaving parts of the source unread costs.")
@click.option("--no-repeat", type=int, default=0, help="No n-gram of so many tokens twice.")
@click.option("--n-best", type=int, default=1, show_default=True, help="Several a line: index ||| text ||| score.")
@click.option("--sample", is_flag=True, help="Draw translations instead of searching for the best.")
@click.option("--temperature", type=float, default=1.0, show_default=True,
              help="With --sample: below 1 bolder choices are rarer; 0 is greedy.")
@click.option("--seed", default=0, show_default=True, help="With --sample.")
@click.option("--scores", is_flag=True, help="text ||| score")
@click.option("--alignments", is_flag=True, help="text ||| which source word each word read most, as 0-0 1-2.")
@click.option("--words", type=click.Choice(["word", "whitespace"]), default="word", show_default=True,
              help="What a word is in alignments: marks apart, or whatever stands between spaces.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("-o", "--out", metavar="FILE", help="Write there, when all is done.")
@click.option("--batch", type=int, help="Source tokens at once, beams counted; changes no result.")
@click.option("--on-bad-text", type=click.Choice(["fail", "replace"]), default="fail", show_default=True,
              help="What to do with bad UTF-8.")
@ENGINE
@DEVICE
@TRUST
def command(**options: Any) -> None:
    """Translate each line of FILE (or of stdin) with the model in the folder RUN. Empty lines stay empty."""
    line_by_line("translate", **options)


def line_by_line(
    task: str, run: str, file: str, sample: bool, temperature: float, seed: int, scores: bool, as_json: bool,
    out: str | None, on_bad_text: str, engine: str, device: str, trust: bool, **named: Any,
) -> None:
    """Translate or summarise line by line, and print each result as it comes, or write all to --out."""
    from regard import storage
    from regard.data.reading.readers import every_line
    from regard.decoding.sampling import Sampling
    from regard.errors import SettingError
    from regard.tasks.translate.engine import refuse_options
    from regard.tasks.translate.translations import TranslateOptions
    from regard.trained import load

    # Made before anything is read: a wrong option is refused at once.
    options = TranslateOptions.of(sampling=Sampling(temperature, seed=seed) if sample else None, **named)
    if options.alignments and options.search.n_best > 1 and not as_json:
        raise SettingError("--alignments tells what the best translation read: leave --n-best out, or use --json")
    if engine != "own":
        refuse_options(options, engine)
    model: Any = load(run, device, trust=trust, task=task)
    if engine != "own":
        from regard.interop.ct2_engine import open_engine

        model.engine = open_engine(model, engine, lambda text: tell(f"({text})"))
    at_once = {"at_a_time": 1} if file == "-" and sys.stdin.isatty() else {}
    notices: list[str] = []
    results = model.stream(every_line(file, on_bad_text), notice=notices.append, options=options, **at_once)
    lines = (line for number, each in enumerate(results)
             for line in format_lines(number, each, options, scores, as_json))
    if out is None:
        for line in lines:
            click.echo(line)
            sys.stdout.flush()
    else:
        storage.write_file(Path(out), "".join(f"{line}\n" for line in lines))
    for notice in notices:
        click.echo(f"({notice})", err=True)


def format_lines(number: int, each: Any, options: Any, scores: bool, as_json: bool) -> Iterator[str]:
    """Yield the lines of one translation: one, or one for each of the n best."""
    from regard.metrics.alignment_error import write_pharaoh

    if as_json:
        yield format_json(as_row(each, options.search.n_best, options.alignments))
    elif options.search.n_best > 1:
        for candidate in each.n_best:
            yield BAR.join((str(number), candidate.text, f"{candidate.score:.4f}"))
    else:
        columns = [each.text]
        if scores:
            columns.append(f"{each.score:.4f}")
        if options.alignments:
            columns.append(write_pharaoh(each.links))
        yield BAR.join(columns)


def as_row(each: Any, n_best: int, alignments: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from regard.metrics.alignment_error import write_pharaoh

    row = {"source": each.source, "text": each.text, "score": each.score, "log_prob": each.log_prob,
           "sentences": each.sentences}
    if n_best > 1:
        row["n_best"] = [asdict(candidate) for candidate in each.n_best]
    if alignments:
        weights = [] if each.weights is None else each.weights.mean((0, 1)).astype(float).round(4).tolist()
        row |= {"alignment": write_pharaoh(each.links), "source_pieces": list(each.source_pieces),
                "target_pieces": list(each.target_pieces), "weights": weights}
    return row
