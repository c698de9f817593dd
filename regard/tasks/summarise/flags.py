"""`regard train summarise`: from documents and their summaries to a summariser."""

import click

from regard.tasks.translate.flags import PAIRS

HELP = """Train a summariser on documents with their summaries: two files line by line, one file of pairs, or `gists`.

Pairs may come as .jsonl (document and summary, or source and target), .tsv or .parquet, each also gzipped, or as a
folder of Hugging Face datasets. Documents longer than --context (512 tokens) are left out of training, and counted.
"""
PARAMS = [click.Argument(["files"], nargs=-1, required=True, metavar="DOCUMENTS SUMMARIES | PAIRS..."), *PAIRS]
