"""From trials to one row a family: means over seeds with intervals, who is tied, and when a level is crossed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from regard.compare.plan import Entry, Plan
from regard.compare.subject import Record, Row, Subject, subject_of

# Two-sided 95% points of Student's t, for 1, 2, 3 ... 30 degrees of freedom.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
       2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half the width of its 95% interval by Student's t: t s / sqrt(n). One value has no interval."""
    mean = statistics.fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return mean, None
    t = T95[min(len(values) - 1, len(T95)) - 1]
    return mean, t * statistics.stdev(values) / math.sqrt(len(values))


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
    rows = [family_row(subject, entry, [r for r in records if r["family"] == entry.family], level)
            for entry in plan.entries]
    sign = -1 if subject.higher else 1
    rows.sort(key=lambda row: (row[subject.metric] is None, sign * (row[subject.metric] or 0.0)))
    leader = rows[0]
    for row in rows:
        row["tied"] = row is not leader and overlap(row, leader, subject.metric)
    return rows


def best_loss(records: Sequence[Record]) -> float | None:
    """The best loss on the text that choices are made by, which is also what curves are of."""
    return min((valid_loss(r) for r in records if r["status"] == "done"), default=None)


def valid_loss(record: Record) -> float:
    """As it was recorded; a comparison made before there was a test part measured on this text itself."""
    return float(record["valid_loss"] if "valid_loss" in record else record["loss"])


def family_row(subject: Subject, entry: Entry, records: Sequence[Record], level: float | None) -> Row:
    done, metric = [r for r in records if r["status"] == "done"], subject.metric
    row: Row = {"family": entry.family, "about": entry.about, "counted": entry.counted, "parameters": entry.parameters,
                metric: None, "failed": [
                    {"name": r["name"], "reason": r["reason"]} for r in records if r["status"] == "failed"]}
    if not done:
        return row
    if entry.counted:                                  # no seed changes what is counted: the best order stands for it
        done = [min(done, key=valid_loss)]
        row["order"] = done[0]["order"]
    value, half = interval([r[metric] for r in done])
    return row | {
        metric: value, "half": 0.0 if entry.counted else half, "values": [r[metric] for r in done],
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


def overlap(one: Row, other: Row, metric: str) -> bool:
    """Whether their intervals have a value in common. Without intervals nothing can be said, and it is not claimed."""
    if one[metric] is None or one.get("half") is None or other.get("half") is None:
        return False
    return bool(abs(one[metric] - other[metric]) <= one["half"] + other["half"])
