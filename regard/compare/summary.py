"""From trials to one row a family: means over seeds with intervals, who is tied, and when the n-gram is crossed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from regard.compare.measure import STATE_LENGTHS
from regard.compare.plan import Entry, Plan
from regard.compare.recall import DISTANCES

Record = dict[str, Any]
Row = dict[str, Any]

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
    counted = {entry.family for entry in plan.entries if entry.counted}
    level = best_loss([r for r in records if r["family"] in counted])
    rows = [family_row(entry, [r for r in records if r["family"] == entry.family], level) for entry in plan.entries]
    rows.sort(key=lambda row: (row["bits_per_byte"] is None, row["bits_per_byte"] or 0.0))
    leader = rows[0]
    for row in rows:
        row["tied"] = row is not leader and overlap(row, leader)
    return rows


def best_loss(records: Sequence[Record]) -> float | None:
    return min((r["loss"] for r in records if r["status"] == "done"), default=None)


def family_row(entry: Entry, records: Sequence[Record], level: float | None) -> Row:
    done = [r for r in records if r["status"] == "done"]
    row: Row = {"family": entry.family, "about": entry.about, "counted": entry.counted, "parameters": entry.parameters,
                "bits_per_byte": None, "failed": [
                    {"name": r["name"], "reason": r["reason"]} for r in records if r["status"] == "failed"]}
    if not done:
        return row
    if entry.counted:                                  # no seed changes what is counted: the best order stands for it
        done = [min(done, key=lambda r: r["loss"])]
        row["order"] = done[0]["order"]
    bits, half = interval([r["bits_per_byte"] for r in done])
    first = next((r for r in done if "state" in r), None) or {}
    return row | {
        "bits_per_byte": bits, "half": 0.0 if entry.counted else half, "values": [r["bits_per_byte"] for r in done],
        "loss": mean(r["loss"] for r in done), "perplexity": mean(r["perplexity"] for r in done),
        "parameters": done[0]["parameters"], "bytes": done[0]["bytes"], "context": done[0]["context"],
        "training_rate": mean(r["training_rate"] for r in done),
        "training_seconds": mean(r["trained"].get("seconds") for r in done),
        "training_tokens": mean(r["trained"].get("tokens") for r in done),
        "generation_rate": {n: mean(r["generation_rate"][n] for r in done) for n in done[0]["generation_rate"]},
        "memory": mean((r["memory"] or {}).get("bytes") for r in done),
        "state": {str(n): first.get("state", {}).get(str(n)) for n in STATE_LENGTHS},
        "recall": {str(d): recall_over(done, str(d)) for d in DISTANCES},
        "valid_one_in": max(r["settings"]["training"].get("valid_one_in") or 1 for r in done),
        "crosses": None if entry.counted or level is None else crossings(done, level),
    }


def crossings(done: Sequence[Record], level: float) -> dict[str, Any]:
    """When the n-gram is crossed: the mean over the seeds that do, and how many of how many do."""
    found = [crossing(r["curve"]["valid"], level) for r in done]
    there = [each for each in found if each is not None]
    return {"of": len(found), "crossed": len(there), "seconds": mean(each["seconds"] for each in there),
            "tokens": mean(each["tokens"] for each in there), "earlier": any(each["earlier"] for each in there)}


def recall_over(done: Sequence[Record], distance: str) -> dict[str, Any]:
    found = [r["recall"][distance] for r in done if distance in r["recall"]]
    gain = mean(each["gain"] for each in found)
    why = next((each["why"] for each in found if "why" in each), None)
    return {"gain": gain, "error": mean(each.get("error") for each in found), "why": why}


def mean(values: Any) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


def overlap(one: Row, other: Row) -> bool:
    """Whether their intervals have a value in common. Without intervals nothing can be said, and it is not claimed."""
    if one["bits_per_byte"] is None or one.get("half") is None or other.get("half") is None:
        return False
    return abs(one["bits_per_byte"] - other["bits_per_byte"]) <= one["half"] + other["half"]
