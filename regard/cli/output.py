"""JSON as commands print it, which any parser takes."""

from __future__ import annotations

import json
import math
from typing import Any

import click


def print_json(values: Any) -> None:
    click.echo(as_json(values))


def as_json(values: Any) -> str:
    """Return one line of JSON. Infinity is not JSON: it is written as null."""
    return json.dumps(_finite(values), ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
