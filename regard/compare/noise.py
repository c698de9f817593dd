"""The rows of a table judged: which families are within the noise of the first, and every difference between two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.compare.differences import Difference, Results, Seed, all_differences
from regard.compare.noise_notes import within_noise
from regard.compare.plan import Plan, Trial
from regard.compare.subject import Record, Row, subject_of
from regard.compare.trial import trial_file
from regard.compare.units import load_units, units_file
from regard.metrics.resampling import Counts

Units = Mapping[str, Counts]                   # by the name of the trial


def kept_units(folder: Path, records: Sequence[Record]) -> dict[str, Counts]:
    """What trials kept of each sentence; nothing of those made before that was done."""
    found = {}
    for record in records:
        trial = Trial(record["family"], record["seed"], record["order"])
        counts = load_units(units_file(trial_file(folder, trial))) if record["status"] == "done" else None
        if counts is not None and np.isfinite(counts).all():
            found[record["name"]] = counts
    return found


def judge_rows(plan: Plan, rows: Sequence[Row], records: Sequence[Record], units: Units) -> list[Difference]:
    """All differences. Each row gets those to the first row and to the row above it, and whether it is within the noise
    of the first (`tied`)."""
    subject = subject_of(plan.task)
    there = [row for row in rows if row[subject.metric] is not None]
    found = all_differences([results_of(row, records, units, subject.metric) for row in there], subject.score)
    pairs = {(each.a, each.b): each.as_dict() for each in found}
    for place, row in enumerate(rows):
        row["against_first"] = pairs.get((rows[0]["family"], row["family"]))
        row["against_above"] = pairs.get((rows[place - 1]["family"], row["family"]))
        row["tied"] = within_noise(row["against_first"])
    return found


def results_of(row: Row, records: Sequence[Record], units: Units, metric: str) -> Results:
    """A family's values and units by seed; of what is counted those of the order that was chosen, for any seed."""
    own = [r for r in records if r["family"] == row["family"] and r["status"] == "done"
           and (not row["counted"] or r["order"] == row["order"])]
    seeds: dict[str, Seed] = {r["name"]: None if row["counted"] else r["seed"] for r in own}
    return Results(row["family"], {seeds[r["name"]]: r[metric] for r in own},
                   {seed: units[name] for name, seed in seeds.items() if name in units})
