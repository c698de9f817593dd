"""`regard score`: perplexity of text under a model, and the quality of what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from regard.cli.options import BAD_TEXT, DEVICE, JSON, TRUST, answer_over_files, print_json

COMMON = ("on_bad_text", "part")             # options that mean the same for every task


@click.command("score")
@click.argument("run")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--documents", type=click.Choice(["file", "line", "blank-line"]),
              help="What one document is.  [default: as in training]")
@click.option("--field", metavar="NAME", help="The column or field of records with the text.  [default: as in "
              "training]")
@BAD_TEXT
@click.option("--on-bad-image", type=click.Choice(["fail", "drop"]),
              help="What to do with a picture that cannot be read.  [default: fail]")
@click.option("--per-line", is_flag=True, help="One row per line: its loss, and the total log-probability of its text.")
@click.option("--per-token", is_flag=True, help="One row per token: its log-probability.")
@click.option("--part", type=click.Choice(["train", "valid", "test", "unseen"]),
              help="Which part of an embedded corpus.  [default: test]")
@click.option("--first", type=click.IntRange(min=1),
              help="Only so many pairs.  [default: all; of the phrasebook 1,000]")
@click.option("--beam", type=int, default=5, show_default=True, help="Beams of a translator; 1 is greedy.")
@click.option("--length-penalty", type=float, default=1.0, show_default=True, help="As for regard translate.")
@click.option("--batch", type=int, help="Source tokens translated at once; changes no result.")
@click.option("--gold", metavar="FILE", help="Gold alignments in Pharaoh format, a line for each pair.")
@click.option("--words", type=click.Choice(["word", "whitespace"]), help="What a word is in the gold alignments.  "
              "[default: whitespace; of the phrasebook word]")
@click.option("--heads", is_flag=True, help="The alignment error of each layer and head.")
@click.option("--by-length", is_flag=True, help="BLEU and exact match by the length of the source.")
@click.option("--against", metavar="OTHER", help="Compare with this run or file of translations by a paired test.")
@click.option("--out", metavar="FILE", help="With --per-line of a language model: write there, a row for every line.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N",
              help="Processes that read a large text, or with --out answer it.  [default: one per core; one per GPU]")
@DEVICE
@TRUST
@JSON
@click.pass_context
def command(
    context: click.Context, run: str, files: tuple[str, ...], out: str | None, workers: int | None, device: str,
    trust: bool, as_json: bool, **options: Any,
) -> None:
    """Perplexity a token and a word, and bits per byte, of FILES (- is stdin) under the model in RUN.

    FILES may be the name of an embedded corpus: then its test part is measured, or the one that --part names.

    For a translator, FILES are SOURCE TARGET, or a file of pairs, or phrasebook. It prints loss, BLEU and chrF with
    intervals, exact match, and the alignment error of its attention where gold alignments are known. For a summariser
    they are DOCUMENTS SUMMARIES, a file of pairs, or gists. It prints ROUGE, beside that of the first sentence of each
    document. For a captioner they are a folder of captioned pictures, or shapes. It prints how many captions are
    exactly right, and how much attention falls on the things named. For a classifier they are labelled texts, or
    origins. It prints accuracy and macro-F1, beside those of the majority class and of a bag of n-grams.

    With --per-line and --out every line of the files has a row, empty ones too, and an interrupted job goes on.
    """
    from regard.data.workers import use_workers
    from regard.errors import RunError, SettingError
    from regard.run_folder import RunFolder
    from regard.tasks import run_task
    from regard.trained import load

    task = run_task(RunFolder.open(run).read_settings())
    if task.score is None:
        raise RunError(f"{run} is a run of the task {task.name}: use it with {task.card.used_by}")
    for name in [name for name in options if name not in (*COMMON, *task.score.options)]:
        if context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            raise SettingError(
                f"--{name.replace('_', '-')} means nothing for a run of the task {task.name}: leave it out")
    if out is not None:
        if not options.get("per_line"):
            raise SettingError(f"--out {out} is for the rows of --per-line: add it, or leave --out out")
        answer_over_files(run, files, out, workers=workers, device=device, trust=trust, as_json=as_json,
                          on_bad_text=options["on_bad_text"])
        return
    model = load(run, device, trust=trust)
    if options["against"] and Path(options["against"]).is_dir():
        options["against"] = load(options["against"], device, trust=trust, task=task.name)
    with use_workers(workers):
        outcome = task.score.measure(model, files, options, lambda text: click.echo(f"({text})", err=True))
    if outcome.each is not None:
        for values, line in outcome.each:
            print_json(values) if as_json else click.echo(line)
    elif as_json:
        print_json(outcome.values)
    else:
        for name, text in outcome.rows:
            click.echo(f"{name:<16} {text}")
