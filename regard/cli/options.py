"""Options that several commands have, and that mean the same in each; and JSON as all of them print it."""

from __future__ import annotations

import json
from typing import Any

import click

from regard.storage import finite

DEVICE = click.option("--device", default="auto", show_default=True, help="cpu, cuda, ...")
TRUST = click.option("--trust", is_flag=True, help="Import the user's own layer that the run names.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
ENGINES = ("own", "ct2", "ct2-float16", "ct2-int8")
ENGINE = click.option("--engine", type=click.Choice(ENGINES), default="own", show_default=True,
                      help="What searches for translations: Regard, or CTranslate2, in 32, 16 or 8 bits.")
BAD_TEXT = click.option("--on-bad-text", type=click.Choice(["fail", "replace", "drop"]), default="fail",
                        show_default=True, help="What to do with bad UTF-8.")


def print_json(values: Any) -> None:
    click.echo(format_json(values))


def format_json(values: Any) -> str:
    """Return one line of JSON, which any parser takes. Infinity is not JSON: it is written as null."""
    return json.dumps(finite(values), ensure_ascii=False)


def tell(text: str) -> None:
    """Print a line for the user, beside the output."""
    click.echo(text, err=True)
