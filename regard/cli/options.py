"""Options that several commands have, and that mean the same in each."""

from __future__ import annotations

import click

DEVICE = click.option("--device", default="auto", show_default=True, help="cpu, cuda, ...")
TRUST = click.option("--trust", is_flag=True, help="Import the user's own layer that the run names.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
BAD_TEXT = click.option("--on-bad-text", type=click.Choice(["fail", "replace", "drop"]), default="fail",
                        show_default=True, help="What to do with bad UTF-8.")
