"""`regard summarise`: one document a line in, one summary a line out."""

from __future__ import annotations

from typing import Any

import click

from regard.cli import translate


@click.command("summarise", params=list(translate.command.params))
def command(**options: Any) -> None:
    """Summarise each line of FILE (or of stdin), a document each, with the model in the folder RUN.

    A document too long for the model is read in parts, with a notice; the summaries of the parts follow each other.
    Several files or a folder are summarised into the folder --out, as by `regard translate`.
    """
    translate.line_by_line("summarise", **options)
