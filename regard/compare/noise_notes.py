"""What the table says of chance: what was judged and by what, what was not, and who cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.compare.plan import Plan
from regard.compare.subject import Row
from regard.compare.units import FEW
from regard.metrics.intervals import SEEDS


def notes_on_noise(rows: Sequence[Row], plan: Plan) -> list[str]:
    said = ["One seed: no interval is known, and seeds are not judged: another seed may give another order."
            if plan.seeds == 1 else
            f"Shown is the median of {plan.seeds} seeds, in brackets its interval: {SEEDS}. Other columns are means."]
    judged = [row["against_first"] for row in rows if (row.get("against_first") or {}).get("p") is not None]
    if not judged:
        return said
    said.append(f"= is within the noise of the first: the difference, {paired_over(judged, rows)}, has p >= 0.05 when "
                f"corrected for all {judged[0]['comparisons']} pairs of families. What has no = is beyond it.")
    close = [row["family"] for row in rows[2:] if not row["tied"] and within_noise(row["against_above"])]
    if close:
        said.append(f"Within the noise of the family above: {', '.join(close)}.")
    few = min((each["over_sentences"]["sentences"] for each in judged if each["over_sentences"]), default=FEW)
    if few < FEW:
        said.append(f"What is measured has only {few} such units: too few for sentences to tell families apart.")
    if any(each["over_sentences"] is None for each in judged):
        said.append("Some trials were made before the counts of each sentence were kept: their sentences are not "
                    "judged.")
    return said


def paired_over(judged: Sequence[dict[str, Any]], rows: Sequence[Row]) -> str:
    """paired over seeds and sentences (documents)"""
    by = ["seeds"] if any(each["over_seeds"] for each in judged) else []
    if any(each["over_sentences"] for each in judged):
        of = next((row["units"] for row in rows if row.get("units")), "sentences")
        by.append("sentences" if of == "sentences" else f"sentences ({of})")
    return f"paired over {' and '.join(by)}"


def within_noise(difference: dict[str, Any] | None) -> bool:
    """Whether it was judged, and found to be no more than chance gives."""
    return difference is not None and difference["p_corrected"] is not None and not difference["beyond_the_noise"]
