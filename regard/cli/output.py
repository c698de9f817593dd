"""JSON as commands print it, which any parser takes."""

from __future__ import annotations

import json
from typing import Any

import click

from regard.storage import finite


def print_json(values: Any) -> None:
    click.echo(as_json(values))


def as_json(values: Any) -> str:
    """Return one line of JSON. Infinity is not JSON: it is written as null."""
    return json.dumps(finite(values), ensure_ascii=False)
