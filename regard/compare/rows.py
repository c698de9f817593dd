"""From trials to one row a family: medians over seeds with intervals, tuning effort, and judged differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.compare.differences import FamilyDifference, Results, Seed, all_differences
from regard.compare.plan import ComparisonPlan, Entry, Record, Row
from regard.compare.subject import Subject, mean, subject_of
from regard.compare.units import load_units
from regard.metrics.intervals import over_seeds
from regard.metrics.resampling import Counts

Units = Mapping[str, Counts]                   # by the name of the trial


def summarise(plan: ComparisonPlan, records: Sequence[Record]) -> list[Row]:
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
    """The validation loss of a record. A comparison from before there was a test part measured on this text itself."""
    return float(record["valid_loss"] if "valid_loss" in record else record["loss"])


def family_row(
    subject: Subject, plan: ComparisonPlan, entry: Entry, records: Sequence[Record], level: float | None
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


def tuning(plan: ComparisonPlan, entry: Entry, done: Sequence[Record]) -> dict[str, Any]:
    """The effort behind the number that is shown: settings tried, seconds of training in all, and settings given."""
    given = plan.settings.get(entry.family, {})
    return {"tried": len(done) if entry.counted else 1, "of": "orders" if entry.counted else "", "given": given,
            "seconds": sum(r["trained"].get("seconds", 0) for r in done)}


# ----------------------------------------------------------------------------------------------- differences


def load_all_units(folder: Path, records: Sequence[Record]) -> dict[str, Counts]:
    """The counts of units that trials kept; a trial made before that was done has none."""
    units = {}
    for record in records:
        path = folder / "trials" / f"{record['name']}.npz"
        counts = load_units(path) if record["status"] == "done" else None
        if counts is not None and np.isfinite(counts).all():
            units[record["name"]] = counts
    return units


def judge_rows(
    plan: ComparisonPlan, rows: Sequence[Row], records: Sequence[Record], units: Units
) -> list[FamilyDifference]:
    """All differences. Each row gets those to the first row and to the row above it, and whether it is within the noise
    of the first (`tied`)."""
    subject = subject_of(plan.task)
    there = [row for row in rows if row[subject.metric] is not None]
    differences = all_differences([results_of(row, records, units, subject.metric) for row in there], subject.score)
    pairs = {(each.a, each.b): each.as_dict() for each in differences}
    for place, row in enumerate(rows):
        row["against_first"] = pairs.get((rows[0]["family"], row["family"]))
        row["against_above"] = pairs.get((rows[place - 1]["family"], row["family"]))
        row["tied"] = within_noise(row["against_first"])
    return differences


def results_of(row: Row, records: Sequence[Record], units: Units, metric: str) -> Results:
    """A family's values and units by seed; of what is counted those of the order that was chosen, for any seed."""
    own = [r for r in records if r["family"] == row["family"] and r["status"] == "done"
           and (not row["counted"] or r["order"] == row["order"])]
    seeds: dict[str, Seed] = {r["name"]: None if row["counted"] else r["seed"] for r in own}
    return Results(row["family"], {seeds[r["name"]]: r[metric] for r in own},
                   {seed: units[name] for name, seed in seeds.items() if name in units})


def within_noise(difference: dict[str, Any] | None) -> bool:
    """True for a difference that was judged, and is no more than chance gives."""
    return difference is not None and difference["p_corrected"] is not None and not difference["beyond_the_noise"]
