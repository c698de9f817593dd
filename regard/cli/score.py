"""`regard score`: how surprised a model is by text, and how well a translator translates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

COMMON = ("on_bad_text", "part")             # options that mean the same for every task


@click.command("score")
@click.argument("run")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--documents", type=click.Choice(["file", "line", "blank-line"]),
              help="What one document is.  [default: as in training]")
@click.option("--on-bad-text", type=click.Choice(["fail", "replace", "drop"]), default="fail")
@click.option("--on-bad-image", type=click.Choice(["fail", "drop"]), help="Of pictures.  [default: fail]")
@click.option("--per-line", is_flag=True, help="One row a line: its loss and its text's total log-probability.")
@click.option("--per-token", is_flag=True, help="One row a token: its log-probability.")
@click.option("--part", type=click.Choice(["train", "valid", "test", "unseen"]),
              help="Of an embedded corpus.  [default: test]")
@click.option("--first", type=click.IntRange(min=1), help="So many pairs.  [default: all; of the phrasebook 1,000]")
@click.option("--beam", type=int, default=5, show_default=True, help="Beams of a translator; 1 is greedy.")
@click.option("--length-penalty", type=float, default=1.0, show_default=True, help="As for regard translate.")
@click.option("--batch", type=int, help="Source tokens translated at once; changes no result.")
@click.option("--gold", metavar="FILE", help="Gold alignments in Pharaoh format, a line for each pair.")
@click.option("--words", type=click.Choice(["word", "whitespace"]), help="What a word is in the gold alignments.  "
              "[default: whitespace; of the phrasebook word]")
@click.option("--heads", is_flag=True, help="The alignment error of each layer and head.")
@click.option("--by-length", is_flag=True, help="BLEU and exact match by the length of the source.")
@click.option("--against", metavar="OTHER", help="Is it better than this run, or this file of translations?")
@click.option("--device", default="auto", show_default=True)
@click.option("--trust", is_flag=True, help="Import the user's own layer that the run names.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def command(
    context: click.Context, run: str, files: tuple[str, ...], device: str, trust: bool, as_json: bool, **options: Any
) -> None:
    """Perplexity a token and a word, and bits per byte, of FILES (- is stdin) under the model in RUN.

    FILES may be the name of an embedded corpus: then its test part is measured, or the one that --part says.

    Of a translator FILES are SOURCE TARGET, or a file of pairs, or phrasebook: loss, BLEU and chrF with intervals,
    exact match, and the alignment error of its attention where gold alignments are known. Of a summariser they are
    DOCUMENTS SUMMARIES, a file of pairs, or gists: ROUGE, beside that of the first sentence of each document. Of a
    captioner they are a folder of captioned pictures, or shapes: how many are exactly right, and where words look.
    """
    from regard.cli.output import print_json
    from regard.errors import RunError
    from regard.run_folder import RunFolder
    from regard.tasks import run_task
    from regard.trained import load

    task = run_task(RunFolder.open(run).read_settings())
    if task.score is None:
        raise RunError(f"{run} is a run of the task {task.name}: use it with {task.used_by}")
    refuse_options(context, [name for name in options if name not in (*COMMON, *task.score.options)], task.name)
    model = load(run, device, trust=trust)
    if options["against"] and Path(options["against"]).is_dir():
        options["against"] = load(options["against"], device, trust=trust, task=task.name)
    outcome = task.score.measure(model, files, options, lambda text: click.echo(f"({text})", err=True))
    if outcome.each is not None:
        for values, line in outcome.each:
            print_json(values) if as_json else click.echo(line)
    elif as_json:
        print_json(outcome.values)
    else:
        for name, text in outcome.rows:
            click.echo(f"{name:<16} {text}")


def refuse_options(context: click.Context, names: Sequence[str], task: str) -> None:
    """What was said that means nothing for a run of this task is a mistake."""
    from regard.errors import SettingError

    for name in names:
        if context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            raise SettingError(f"--{name.replace('_', '-')} means nothing for a run of the task {task}: leave it out")
