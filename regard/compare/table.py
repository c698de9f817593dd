"""The table: one row a family, best first, as text for a terminal, as Markdown and as cells for the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.compare.measure import STATE_LENGTHS
from regard.compare.plan import Plan
from regard.compare.recall import DISTANCES
from regard.compare.summary import Row

LENGTHS = " / ".join(str(n) if n < 1024 else f"{n // 1024}k" for n in STATE_LENGTHS)
HEADINGS = (("family",), ("bits/byte",), ("parameters",), ("trained", "for"), ("training", "tokens/s"),
            ("generation", "tokens/s"), ("peak", "memory"), ("state bytes at", LENGTHS),
            ("recall at", " / ".join(map(str, DISTANCES))), ("crosses", "the n-gram"))        # in one line or two
NOTHING = "–"


def cells(row: Row, plan: Plan) -> list[str]:
    """The row as short texts, one a heading."""
    if row["bits_per_byte"] is None:
        why = row["failed"][0]["reason"] if row["failed"] else "not trained yet"
        return [row["family"], f"failed: {why}" if row["failed"] else why, *[""] * (len(HEADINGS) - 2)]
    return [name(row), bits(row), size(row), minutes(row["training_seconds"]), rate(row["training_rate"]),
            rate(row["generation_rate"]["1"]), amount(row["memory"]),
            " / ".join(kept(row["state"][str(n)]) for n in STATE_LENGTHS),
            " / ".join(gain(row["recall"][str(d)]) for d in DISTANCES), crossed(row, plan)]


def name(row: Row) -> str:
    return f"{row['family']} (order {row['order']})" if row["counted"] else row["family"]


def bits(row: Row) -> str:
    if not math.isfinite(row["bits_per_byte"]):
        return "infinite"
    spread = "" if row["counted"] or row["half"] is None else f" ± {row['half']:.4f}"
    return f"{row['bits_per_byte']:.4f}{spread}{' =' if row['tied'] else ''}"


def size(row: Row) -> str:
    return f"{amount(row['bytes'])} of counts" if row["counted"] else f"{row['parameters']:,}"


def rate(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def amount(value: float | None) -> str:
    """Bytes as people read them: 512 B, 66 kB, 1.2 MB."""
    if value is None:
        return NOTHING
    short = shortened(value)
    return f"{short[:-1]} {short[-1]}B" if short[-1] in "kMG" else f"{short} B"


def shortened(value: float) -> str:
    """512, 66k, 1.2M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.1f}{letter}" if value < 10 * unit else f"{value / unit:.0f}{letter}"
    return f"{value:.0f}"


def kept(state: dict[str, Any] | None) -> str:
    return NOTHING if state is None else shortened(state["bytes"]) + ("*" if state["bounded"] else "")


def gain(found: dict[str, Any]) -> str:
    return NOTHING if found["gain"] is None else f"{found['gain']:.2f}".replace("-0.00", "0.00")


def crossed(row: Row, plan: Plan) -> str:
    found = row["crosses"]
    if found is None:
        return "" if row["counted"] else NOTHING
    if not found["crossed"]:
        return f"not within {budget(plan)}"
    when = f"{'before ' if found['earlier'] else ''}{minutes(found['seconds'])}"
    return when if found["crossed"] == found["of"] else f"{when} ({found['crossed']} of {found['of']} seeds)"


def minutes(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def budget(plan: Plan) -> str:
    kind, value = next(iter(plan.budget.items()))
    return f"{value:g} min" if kind == "minutes" else f"{value:,} {kind}"


def notes(rows: Sequence[Row], plan: Plan) -> list[str]:
    """What a reader must know to believe the table, each in a line."""
    said = [f"Each model had {budget(plan)} of training on the same text, with the same tokenizer"
            + (f", and {plan.params:,} parameters within 5%." if plan.params else
               "; each family has its own default size, so the numbers of parameters differ.")]
    if "steps" in plan.budget:
        said.append("A step of one family may read more tokens than a step of another: "
                    "for equal tokens use --tokens.")
    if "minutes" in plan.budget:
        said.append("How many steps fit into the minutes is found by timing a few, and then fixed; how long they took "
                    "in the end stands in the table.")
    said.append("One seed: no interval is known, and small differences may be chance." if plan.seeds == 1 else
                f"± is the 95% interval of the mean over {plan.seeds} seeds (Student's t)."
                + (" = marks a family whose interval overlaps the first one's: they are tied."
                   if any(row["tied"] for row in rows) else ""))
    said.append(f"The n-gram's order is the best of {', '.join(map(str, plan.orders))} on the held-out text itself, "
                "which favours it; the weights kept of the others are those of their best validation on it, which "
                "favours them.")
    if any((state or {}).get("bounded") for row in rows for state in row.get("state", {}).values()):
        said.append("* reads no more than its context at once, and keeps no more than this, whatever the length.")
    parts = max((row.get("valid_one_in", 1) for row in rows), default=1)
    if parts > 1:
        said.append(f"While training, validation read one in {parts:,} of the held-out batches, or more of them: when "
                    "the n-gram is crossed is known the less exactly.")
    said.append("Recall: bits a token saved by having read a passage so many tokens ago; – is out of reach.")
    unknown = plan.text["valid"]["unknown"]
    if unknown:
        said.append(f"{unknown:,} of the {plan.text['valid']['tokens']:,} held-out tokens are <unk>: bits per byte do "
                    "not pay for what they stand for.")
    for row in rows:
        for each in row["failed"] if row["bits_per_byte"] is not None else ():
            said.append(f"{each['name']} failed: {each['reason']}")
    return said


def as_text(rows: Sequence[Row], plan: Plan) -> str:
    """Aligned columns, then the notes."""
    body = [cells(row, plan) for row in rows]
    lines = [[heading[0] if len(heading) > 1 else "" for heading in HEADINGS], [heading[-1] for heading in HEADINGS]]
    whole = [row for row in body if any(row[2:])]                    # a failure's reason would widen its column
    widths = [max(len(row[n]) for row in [*lines, *whole]) for n in range(len(HEADINGS))]
    widths[0] = max(widths[0], *(len(row[0]) for row in body))

    def line(row: list[str]) -> str:
        return "  ".join(f"{cell:<{widths[n]}}" if n in (0, 1) else f"{cell:>{widths[n]}}"
                         for n, cell in enumerate(row)).rstrip()

    ruled = [*map(line, lines), "  ".join("─" * width for width in widths), *map(line, body)]
    return "\n".join([*ruled, "", *(f"  {note}" for note in notes(rows, plan))])


def as_markdown(rows: Sequence[Row], plan: Plan) -> str:
    lines = ["| " + " | ".join(map(" ".join, HEADINGS)) + " |", "|---|---|" + "---:|" * (len(HEADINGS) - 2)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells(row, plan)) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes(rows, plan))]) + "\n"


def print_rich(rows: Sequence[Row], plan: Plan) -> None:
    """The same on a terminal, which may be narrow."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for n, heading in enumerate(HEADINGS):
        table.add_column("\n".join(heading), justify="left" if n < 2 else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, cells(row, plan)), style="bold" if row["counted"] else None)
    console = Console()
    console.print(table)
    for note in notes(rows, plan):
        console.print(note, style="dim", highlight=False, markup=False)
