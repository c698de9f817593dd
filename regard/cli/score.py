"""`regard score`: how surprised a model is by text, and how well a translator translates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import click


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
    context: click.Context, run: str, files: tuple[str, ...], documents: str | None, on_bad_text: str, per_line: bool,
    per_token: bool, part: str | None, device: str, trust: bool, as_json: bool, **of_pairs: Any,
) -> None:
    """Perplexity a token and a word, and bits per byte, of FILES (- is stdin) under the model in RUN.

    FILES may be the name of an embedded corpus: then its test part is measured, or the one that --part says.

    Of a translator FILES are SOURCE TARGET, or a file of pairs, or phrasebook: loss, BLEU and chrF with intervals,
    exact match, and the alignment error of its attention where gold alignments are known. Of a summariser they are
    DOCUMENTS SUMMARIES, a file of pairs, or gists: ROUGE, beside that of the first sentence of each document. Of a
    captioner they are a folder of captioned pictures, or shapes: how many are exactly right, and where words look.
    """
    from regard.cli.output import print_json
    from regard.data.embedded import known
    from regard.metrics.perplexity import impossible
    from regard.run_folder import RunFolder
    from regard.trained import load, run_task

    task = run_task(RunFolder.open(run).read_settings()).name
    paired = task in ("translate", "summarise", "caption")
    refuse_options(context, ("documents", "per_line", "per_token") if paired else tuple(of_pairs), task)
    if paired:
        from regard.cli.score_captions import score_captions
        from regard.cli.score_pairs import score_pairs
        from regard.cli.score_summaries import score_summaries

        wanted = {**of_pairs, "part": part, "on_bad_text": on_bad_text, "device": device, "trust": trust}
        score = {"translate": score_pairs, "summarise": score_summaries, "caption": score_captions}[task]
        score(load(run, device, trust=trust, task=task), files, as_json, wanted)
        return
    model = load(run, device, trust=trust, task="lm")
    if per_line:
        documents = "line"
    shard = model.encode_files(files, on_bad_text=on_bad_text, documents=documents, part=part)
    if per_line or per_token:
        print_rows(line_rows(model, shard) if per_line else token_rows(model, shard, documents), as_json)
        return
    surprise = model.score_shard(shard, documents)
    never = None
    if math.isinf(surprise.nats):
        never = impossible(model.language_model, model.held_out(shard, documents), model.tokenizer.token)
    if as_json:
        print_json({**surprise.as_dict(), **(never.as_dict() if never else {})})
        return
    click.echo(f"loss             {surprise.loss:.4f} nats a token")
    click.echo(f"perplexity       {surprise.perplexity:.4f} a token · {surprise.word_perplexity:.2f} a word")
    click.echo(f"bits per byte    {surprise.bits_per_byte:.4f}")
    click.echo(f"over             {surprise.tokens:,} tokens, {surprise.words:,} words, {surprise.bytes:,} bytes"
               + (f", {surprise.unknown:,} of the tokens unknown" if surprise.unknown else ""))
    if known(files):
        click.echo(f"of               the {part or 'test'} part of {' and '.join(files)}")
    if never:
        click.echo(f"infinite         {never}")
    if surprise.warning:
        click.echo(f"warning          {surprise.warning}")


def refuse_options(context: click.Context, names: tuple[str, ...], task: str) -> None:
    """What was said that means nothing for a run of this task is a mistake."""
    from regard.errors import SettingError

    for name in names:
        if context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            raise SettingError(f"--{name.replace('_', '-')} means nothing for a run of the task {task}: leave it out")


def print_rows(rows: Iterator[dict[str, Any]], as_json: bool) -> None:
    from regard.cli.output import print_json

    for row in rows:
        if as_json:
            print_json(row)
        elif "text" in row:
            click.echo(f"{row['log_prob']:11.4f}  {row['tokens']:5d}  {row['text']}")
        else:
            click.echo(f"{row['log_prob']:9.4f}  {row['token']}")


def token_rows(model: Any, shard: Any, documents: str | None) -> Iterator[dict[str, Any]]:
    for token, score in zip(shard.tokens.tolist(), model.token_scores(shard, documents).tolist(), strict=True):
        yield {"token": model.tokenizer.token(token), "log_prob": score}


def line_rows(model: Any, shard: Any) -> Iterator[dict[str, Any]]:
    scores, first = model.token_scores(shard, "line").tolist(), 0
    for end in shard.ends.tolist():
        own = scores[first:end]
        yield {"log_prob": sum(own), "tokens": len(own), "loss": -sum(own) / max(1, len(own)),
               "text": model.tokenizer.decode(shard.tokens[first:end])}
        first = end
