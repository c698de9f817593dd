"""The table: one row a family, best first, as text for a terminal and as Markdown; its columns are the subject's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.compare.plan import ComparisonPlan, Row
from regard.compare.rows import within_noise
from regard.compare.subject import subject_of
from regard.metrics.intervals import SEEDS
from regard.metrics.text_units import FEW
from regard.report.tables import markdown_table, rich_table, text_table


def headings(plan: ComparisonPlan) -> list[tuple[str, ...]]:
    return [column.heading for column in subject_of(plan.task).columns(plan)]


def cells(row: Row, plan: ComparisonPlan) -> list[str]:
    """The row as short texts, one a column; a family that failed has the reason in its second."""
    subject = subject_of(plan.task)
    columns = subject.columns(plan)
    if row[subject.metric] is not None:
        return [column.cell(row) for column in columns]
    why = row["failed"][0]["reason"] if row["failed"] else "not trained yet"
    return [row["family"], f"failed: {why}" if row["failed"] else why, *[""] * (len(columns) - 2)]


def notes(rows: Sequence[Row], plan: ComparisonPlan) -> list[str]:
    """Notes below the table, each a line: what a reader must know to believe it."""
    subject = subject_of(plan.task)
    lines = [f"Each model had {plan.show_budget()} of training on the same text, with the same tokenizer"
             + (f", and {plan.params:,} parameters within 5%." if plan.params else
                "; each family has its own default size, so the numbers of parameters differ.")]
    if "steps" in plan.budget:
        lines.append("A step of one family may read more tokens than a step of another: "
                     "for equal tokens use --tokens.")
    if "minutes" in plan.budget:
        lines.append("How many steps fit into the minutes is found by timing a few, and then fixed; how long they took "
                     "in the end stands in the table.")
    lines += notes_on_noise(rows, plan)
    lines += subject.notes(rows, plan)
    by_hand = [row["family"] for row in rows if row.get("tuning", {}).get("given")]
    if by_hand:
        lines.append(f"Of {', '.join(by_hand)} some settings were given by --set: how many were tried before is not "
                     "known here.")
    for row in rows:
        for each in row["failed"] if row[subject.metric] is not None else ():
            lines.append(f"{each['name']} failed: {each['reason']}")
    return lines


def notes_on_noise(rows: Sequence[Row], plan: ComparisonPlan) -> list[str]:
    """Notes on chance: what was judged and by what, what was not, and which families cannot be told apart."""
    lines = ["One seed: no interval is known, and seeds are not judged: another seed may give another order."
             if plan.seeds == 1 else
             f"Shown is the median of {plan.seeds} seeds, in brackets its interval: {SEEDS}. Other columns are means."]
    judged = [row["against_first"] for row in rows if (row.get("against_first") or {}).get("p") is not None]
    if not judged:
        return lines
    lines.append(f"= is within the noise of the first: the difference, {paired_over(judged, rows)}, has p >= 0.05 when "
                 f"corrected for all {judged[0]['comparisons']} pairs of families. What has no = is beyond it.")
    close = [row["family"] for row in rows[2:] if not row["tied"] and within_noise(row["against_above"])]
    if close:
        lines.append(f"Within the noise of the family above: {', '.join(close)}.")
    few = min((each["over_sentences"]["sentences"] for each in judged if each["over_sentences"]), default=FEW)
    if few < FEW:
        lines.append(f"What is measured has only {few} such units: too few for sentences to tell families apart.")
    if any(each["over_sentences"] is None for each in judged):
        lines.append("Some trials were made before the counts of each sentence were kept: their sentences are not "
                     "judged.")
    return lines


def paired_over(judged: Sequence[dict[str, Any]], rows: Sequence[Row]) -> str:
    """paired over seeds and sentences (documents)"""
    by = ["seeds"] if any(each["over_seeds"] for each in judged) else []
    if any(each["over_sentences"] for each in judged):
        of = next((row["units"] for row in rows if row.get("units")), "sentences")
        by.append("sentences" if of == "sentences" else f"sentences ({of})")
    return f"paired over {' and '.join(by)}"


def as_text(rows: Sequence[Row], plan: ComparisonPlan) -> str:
    """The table with aligned columns, then the notes."""
    table = text_table(headings(plan), [cells(row, plan) for row in rows])
    return "\n".join([table, "", *(f"  {note}" for note in notes(rows, plan))])


def as_markdown(rows: Sequence[Row], plan: ComparisonPlan) -> str:
    """The table as Markdown, then the notes as a list."""
    table = markdown_table(headings(plan), [cells(row, plan) for row in rows])
    return "\n".join([table, "", *(f"- {note}" for note in notes(rows, plan))]) + "\n"


def print_rich(rows: Sequence[Row], plan: ComparisonPlan) -> None:
    """Print the table and its notes on a terminal, which may be narrow."""
    from rich.console import Console

    console = Console()
    console.print(rich_table(headings(plan), [cells(row, plan) for row in rows],
                             bold={n for n, row in enumerate(rows) if row["counted"]}))
    for note in notes(rows, plan):
        console.print(note, style="dim", highlight=False, markup=False)
