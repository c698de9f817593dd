"""`regard train summarise`: from documents and their summaries to a summariser."""

from __future__ import annotations

from typing import Any

import click

from regard.cli.train import command
from regard.cli.train_translate import train_pairs, translate

# The options of `regard train translate` that mean the same here; all but the names of the languages.
SAME = [each for each in translate.params if each.name not in ("files", "langs")]
FILES = click.Argument(["files"], nargs=-1, required=True, metavar="DOCUMENTS SUMMARIES | PAIRS...")


@command.command("summarise", params=[FILES, *SAME])
def summarise(as_json: bool, **options: Any) -> None:
    """Train a summariser on documents with their summaries: two files line by line, one file of pairs, or `gists`.

    Pairs may come as .jsonl (document and summary, or source and target), .tsv or .parquet, each also gzipped.
    Documents longer than --context (512 tokens) are left out of training, and counted.
    """
    train_pairs("summarise", as_json, langs=None, **options)
