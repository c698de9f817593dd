"""The table: one row a family, best first, as text for a terminal and as Markdown; its columns are the subject's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.compare.noise_notes import notes_on_noise
from regard.compare.plan import Plan
from regard.compare.subject import Row, subject_of
from regard.metrics.intervals import SEEDS
from regard.report.tables import markdown_table, rich_table, text_table

NOTHING = "–"
TRIED = ("How many settings were trained to find the one that is shown, the best by validation: all orders of an "
         "n-gram, one setting of each other family. What --set gave was chosen before: how many were tried is unknown.")


def cells(row: Row, plan: Plan) -> list[str]:
    """The row as short texts, one a heading; of one that failed, why."""
    subject = subject_of(plan.task)
    if row[subject.metric] is not None:
        return subject.cells(row, plan)
    why = row["failed"][0]["reason"] if row["failed"] else "not trained yet"
    return [row["family"], f"failed: {why}" if row["failed"] else why, *[""] * (len(subject.headings) - 2)]


def name(row: Row) -> str:
    return f"{row['family']} (order {row['order']})" if row["counted"] else row["family"]


def size(row: Row) -> str:
    return f"{amount(row['bytes'])} of counts" if row["counted"] else f"{row['parameters']:,}"


def tried(row: Row) -> str:
    """6 orders; 1; 1 by --set."""
    found = row["tuning"]
    return f"{found['tried']}" + (f" {found['of']}" if found["of"] else "") + (" by --set" if found["given"] else "")


def between(row: Row, digits: int) -> str:
    """The interval over seeds, where there is one."""
    if row["interval"] is None:
        return ""
    low, high = row["interval"]
    return f" ({low:.{digits}f} to {high:.{digits}f})"


def with_interval_named(text: str) -> str:
    """2.27 (2.24 to 2.31, 95% over seeds): for a sentence, without a note beneath that says so."""
    return text.replace(")", f", {SEEDS})")


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


def minutes(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def budget(plan: Plan) -> str:
    kind, value = next(iter(plan.budget.items()))
    return f"{value:g} min" if kind == "minutes" else f"{value:,} {kind}"


def notes(rows: Sequence[Row], plan: Plan) -> list[str]:
    """What a reader must know to believe the table, each in a line."""
    subject = subject_of(plan.task)
    said = [f"Each model had {budget(plan)} of training on the same text, with the same tokenizer"
            + (f", and {plan.params:,} parameters within 5%." if plan.params else
               "; each family has its own default size, so the numbers of parameters differ.")]
    if "steps" in plan.budget:
        said.append("A step of one family may read more tokens than a step of another: "
                    "for equal tokens use --tokens.")
    if "minutes" in plan.budget:
        said.append("How many steps fit into the minutes is found by timing a few, and then fixed; how long they took "
                    "in the end stands in the table.")
    said += notes_on_noise(rows, plan)
    said += subject.notes(rows, plan)
    by_hand = [row["family"] for row in rows if row.get("tuning", {}).get("given")]
    if by_hand:
        said.append(f"Of {', '.join(by_hand)} some settings were given by --set: how many were tried before is not "
                    "known here.")
    for row in rows:
        for each in row["failed"] if row[subject.metric] is not None else ():
            said.append(f"{each['name']} failed: {each['reason']}")
    return said


def as_text(rows: Sequence[Row], plan: Plan) -> str:
    """Aligned columns, then the notes."""
    table = text_table(subject_of(plan.task).headings, [cells(row, plan) for row in rows])
    return "\n".join([table, "", *(f"  {note}" for note in notes(rows, plan))])


def as_markdown(rows: Sequence[Row], plan: Plan) -> str:
    table = markdown_table(subject_of(plan.task).headings, [cells(row, plan) for row in rows])
    return "\n".join([table, "", *(f"- {note}" for note in notes(rows, plan))]) + "\n"


def print_rich(rows: Sequence[Row], plan: Plan) -> None:
    """Print the table and its notes on a terminal, which may be narrow."""
    from rich.console import Console

    console = Console()
    console.print(rich_table(subject_of(plan.task).headings, [cells(row, plan) for row in rows],
                             bold={n for n, row in enumerate(rows) if row["counted"]}))
    for note in notes(rows, plan):
        console.print(note, style="dim", highlight=False, markup=False)
