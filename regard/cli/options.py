"""Options that several commands have, and that mean the same in each; and JSON as all of them print it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from regard.errors import one_line
from regard.storage import format_json

DEVICE = click.option("--device", default="auto", show_default=True,
                      help="cpu, cuda, cuda:1, ...; auto: a GPU if there is one.")
TRUST = click.option("--trust", is_flag=True, help="Import the user's own layer that the run names.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
ENGINES = ("own", "ct2", "ct2-float16", "ct2-int8")
ENGINE = click.option("--engine", type=click.Choice(ENGINES), default="own", show_default=True,
                      help="What searches for translations: Regard, or CTranslate2, in 32, 16 or 8 bits.")
BAD_TEXT = click.option("--on-bad-text", type=click.Choice(["fail", "replace", "drop"]), default="fail",
                        show_default=True, help="What to do with bad UTF-8.")


WORKERS = click.option("--workers", type=click.IntRange(min=1), metavar="N",
                       help="Processes, one per GPU, that answer files or folders into --out.")


def is_over_files(files: Sequence[str], workers: int | None) -> bool:
    """True if a command answers files into --out, by several processes perhaps, instead of a stream."""
    return workers is not None or len(files) > 1 or any(Path(name).is_dir() for name in files) or (
        "RANK" in os.environ and "WORLD_SIZE" in os.environ)


def answer_over_files(run: str, files: Sequence[str], out: str | None, **options: Any) -> None:
    """Answer files into --out, and say what was written."""
    from regard.errors import SettingError
    from regard.inference.answer_files import answer_files

    if out is None:
        raise SettingError("several files, folders, --workers and torchrun need --out: a file, or a folder with a file "
                           "for each")
    for path in answer_files(run, files or ("-",), out, say=lambda text: tell(f"({text})"), **options):
        tell(f"(written: {path})")


def print_json(values: Any) -> None:
    click.echo(format_json(values))


def tell(text: str) -> None:
    """Print lines for the user, beside the output."""
    click.echo("\n".join(map(one_line, text.split("\n"))), err=True)
