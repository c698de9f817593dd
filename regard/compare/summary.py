"""From trials to one row a family: medians over seeds with intervals, tuning effort, and when a level is crossed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from regard.compare.plan import Entry, Plan
from regard.compare.subject import Record, Row, Subject, subject_of
from regard.metrics.intervals import over_seeds


def crossing(points: Sequence[Sequence[float]], level: float) -> dict[str, Any] | None:
    """Where a curve of [tokens, seconds, loss] first falls below a level, on the straight line between two points.

    A first point that is below already says only that it happened before it. None: it never falls so far.
    """
    before: Sequence[float] | None = None
    for tokens, seconds, loss in points:
        if loss < level:
            if before is None:
                return {"tokens": tokens, "seconds": seconds, "earlier": True}
            share = (before[2] - level) / (before[2] - loss)
            return {"tokens": before[0] + share * (tokens - before[0]),
                    "seconds": before[1] + share * (seconds - before[1]), "earlier": False}
        before = (tokens, seconds, loss)
    return None


def summarise(plan: Plan, records: Sequence[Record]) -> list[Row]:
    """One row a family, best first; families without a result last."""
    subject = subject_of(plan.task)
    counted = {entry.family for entry in plan.entries if entry.counted}
    level = best_loss([r for r in records if r["family"] in counted])
    rows = [family_row(subject, plan, entry, [r for r in records if r["family"] == entry.family], level)
            for entry in plan.entries]
    sign = -1 if subject.higher else 1
    rows.sort(key=lambda row: (row[subject.metric] is None, sign * (row[subject.metric] or 0.0)))
    return rows


def best_loss(records: Sequence[Record]) -> float | None:
    """The best loss on the text that choices are made by, which is also what curves are of."""
    return min((valid_loss(r) for r in records if r["status"] == "done"), default=None)


def valid_loss(record: Record) -> float:
    """As it was recorded; a comparison made before there was a test part measured on this text itself."""
    return float(record["valid_loss"] if "valid_loss" in record else record["loss"])


def family_row(
    subject: Subject, plan: Plan, entry: Entry, records: Sequence[Record], level: float | None
) -> Row:
    done, metric = [r for r in records if r["status"] == "done"], subject.metric
    row: Row = {"family": entry.family, "about": entry.about, "counted": entry.counted, "parameters": entry.parameters,
                metric: None, "failed": [
                    {"name": r["name"], "reason": r["reason"]} for r in records if r["status"] == "failed"]}
    if not done:
        return row
    row["tuning"] = tuning(plan, entry, done)
    if entry.counted:                                  # no seed changes what is counted: the best order stands for it
        done = [min(done, key=valid_loss)]
        row["order"] = done[0]["order"]
    found = over_seeds([r[metric] for r in done])
    return row | {
        metric: found.median, "interval": [found.low, found.high] if found.known else None,
        "values": [r[metric] for r in done], "units": done[0].get("units", {}).get("of"),
        "loss": mean(r["loss"] for r in done), "valid_loss": mean(map(valid_loss, done)),
        "perplexity": mean(r["perplexity"] for r in done),
        "parameters": done[0]["parameters"], "bytes": done[0]["bytes"], "context": done[0]["context"],
        "training_rate": mean(r["training_rate"] for r in done),
        "training_seconds": mean(r["trained"].get("seconds") for r in done),
        "training_tokens": mean(r["trained"].get("tokens") for r in done),
        "memory": mean((r["memory"] or {}).get("bytes") for r in done),
        "valid_one_in": max(r["settings"]["training"].get("valid_one_in") or 1 for r in done),
        **subject.row(entry, done, level),
    }


def mean(values: Any) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


def tuning(plan: Plan, entry: Entry, done: Sequence[Record]) -> dict[str, Any]:
    """How much was tried for the number that is shown: settings, and seconds of training in all; and what was given."""
    given = plan.settings.get(entry.family, {})
    return {"tried": len(done) if entry.counted else 1, "of": "orders" if entry.counted else "", "given": given,
            "seconds": sum(r["trained"].get("seconds", 0) for r in done)}
