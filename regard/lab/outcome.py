"""From what was measured to a card: the verdict, the table, the charts, and the command that made them.

A card is what the report and the page show. All of it is worked out from the arms that are kept.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard import storage
from regard.lab.charts import draw, rows_of
from regard.lab.experiment import Chart, Experiment, Table
from regard.lab.results import Kept
from regard.lab.runner import Plan
from regard.lab.verdict import as_dicts, judge

Card = dict[str, Any]


def conclude(experiment: Experiment, kept: Kept, plan: Plan) -> Card | None:
    """Judge what is kept, write it with its charts beside it, and give the card; None while something is missing."""
    seeds = kept.seeds(experiment, plan.settings)
    if seeds is None:
        return None
    verdict, judged = judge(experiment, seeds)
    told = {"verdict": verdict, "rules": as_dicts(judged), "seeds": plan.seeds, "quick": plan.quick,
            "seconds": round(kept.seconds(experiment, plan.settings), 1), "command": command(experiment, plan)}
    if plan.flipped:
        kept.record["flipped"] = told
    else:
        charts = experiment.charts(seeds)
        table = experiment.table(seeds) if experiment.table else Table(*rows_of(charts))
        kept.record.update(about(experiment), **told, table=asdict(table),
                           plots=_write_charts(charts, kept.path.with_suffix("")))
        if kept.record.get("flipped", {}).get("quick", plan.quick) != plan.quick:
            kept.record["flipped"] = None                   # of a run of another size: it says nothing about this one
    kept.save()
    return card_of(kept.path)


def about(experiment: Experiment) -> dict[str, Any]:
    return {"name": experiment.name, "number": experiment.number, "title": experiment.title, "claim": experiment.claim,
            "source": experiment.source, "equation": experiment.equation, "refuted": experiment.refuted,
            "rule": experiment.rule_text, "flip": experiment.flip, "notes": experiment.notes}


def command(experiment: Experiment, plan: Plan) -> str:
    parts = ["regard lab", "flip" if plan.flipped else "run", experiment.name, f"--seeds {plan.seeds}"]
    parts += ["--quick"] * plan.quick + [f"--device {plan.device}"] * (plan.device != "cpu")
    return " ".join(parts)


def _write_charts(charts: Sequence[Chart], stem: Path) -> list[dict[str, str]]:
    told = []
    for number, chart in enumerate(charts, 1):
        for kind in ("svg", "png"):
            storage.write_file(stem.with_name(f"{stem.name}-{number}.{kind}"), draw(chart, kind))
        told.append({"title": chart.title, "file": f"{stem.name}-{number}.svg"})
    return told


# --------------------------------------------------------------------------------------- reading them again


def cards(folder: str | Path) -> list[Card]:
    """Every card under a folder of results, in the order of their numbers; machines one after another."""
    found = [card for path in sorted(Path(folder).rglob("*.json")) if (card := card_of(path)) is not None]
    return in_order(found)


def in_order(found: Sequence[Card]) -> list[Card]:
    return sorted(found, key=lambda card: (card["number"], card["name"], card["machine"]))


def card_of(path: Path) -> Card | None:
    """A card from its file, charts included; None where nothing has been concluded yet."""
    record = json.loads(path.read_text())
    if "verdict" not in record or "rules" not in record:
        return None
    arms = record.pop("arms", {})
    plots = [{**plot, "svg": path.with_name(plot["file"]).read_text()} for plot in record.get("plots", [])
             if path.with_name(plot["file"]).exists()]
    return {**record, "machine": path.parent.name, "plots": plots, "csv": _as_csv(record["table"]), "arms": len(arms),
            "where": ", ".join(f"{name} {value}" if name != "device" else str(value)
                               for name, value in record.get("where", {}).items() if name != "when"),
            "when": record.get("where", {}).get("when", "")}


def _as_csv(table: dict[str, Any]) -> str:
    held = io.StringIO()
    csv.writer(held).writerows([table["columns"], *table["rows"]])
    return held.getvalue()


