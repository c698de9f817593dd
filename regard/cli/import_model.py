"""`regard import`: a model of another program becomes a run."""

from __future__ import annotations

import click

from regard.cli.options import JSON, print_json


@click.command("import")
@click.argument("source")
@click.option("-o", "--out", metavar="RUN", help="Where to write the run.  [default: runs/NAME]")
@click.option("--context", type=int, metavar="N", help="Read at most so many tokens at once.  [default: as many as the "
              "model can]")
@click.option("--tokenizer", metavar="PATH", help="Of a checkpoint of nanoGPT: a tokenizer.json, or a meta.json with "
              "its characters.  [default: the one beside it]")
@click.option("--revision", metavar="REV", help="Of hub:OWNER/NAME: a branch, a tag or a commit.  [default: main]")
@JSON
def command(
    source: str, out: str | None, context: int | None, tokenizer: str | None, revision: str | None, as_json: bool
) -> None:
    """Make a run of the model in SOURCE: a folder of transformers (GPT-2, GPT-NeoX, Llama, Mistral, Qwen, StarCoder2,
    Mamba, Mamba-2, Marian, EuroBERT), a checkpoint of nanoGPT, an n-gram as an ARPA file, or hub:OWNER/NAME, which
    Regard downloads from the Hugging Face hub.

    Regard reads weights from safetensors, and runs nothing in the folder. A separate process first converts a
    checkpoint of nanoGPT. If anything does not fit, it is an error, and nothing is written.
    """
    from dataclasses import asdict

    from regard.interop.importing import import_run

    done = import_run(source, out, context=context, tokenizer=tokenizer, revision=revision)
    if as_json:
        print_json({**asdict(done), "path": str(done.path)})
        return
    added = f", {done.added} of them added" if done.added else ""
    click.echo(f"{done.path}  {done.kind} as {done.family}: {done.parameters:,} parameters, {done.vocab:,} "
               f"tokens{added}, in {done.seconds:.1f} s")
