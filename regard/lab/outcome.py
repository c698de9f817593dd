"""From results to a card: the verdict, the table, the charts, and the command that made them.

The report and the page show cards. A card is worked out from the arms that are stored, and can be worked out again
without measuring anything (`redraw`). Where runs of several sizes are stored, the card shows the largest that is
complete: full over quick, then more seeds over fewer. The same holds for the outcome of each flip (`flipping`).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard import storage
from regard.errors import RunError
from regard.lab.experiment import Experiment, Seed
from regard.lab.flipping import conclude_flip, size_of, store_flips, tell_flips, tell_run, tell_size
from regard.lab.hashes import hash_rules
from regard.lab.results import ClaimResults, open_results
from regard.lab.runner import QUICK_SEEDS, SEEDS, RunPlan
from regard.report.charts import Chart, draw, hash_drawing, rows_of
from regard.report.tables import Table

Card = dict[str, Any]


# ---------------------------------------------------------------------------------------------- concluding


def conclude(experiment: Experiment, results: ClaimResults, plan: RunPlan) -> Card | None:
    """The card of a run; None while something is missing. The card on disk is brought up to date with it.

    A run smaller than the one that the card shows leaves the card as it is, and says so in `smaller_than`.
    """
    seeds = results.seeds(experiment, plan.settings())
    if seeds is None:
        return None
    (card, judged), before = tell_run(experiment, results, plan, seeds), results.record
    smaller = size_of(card) < size_of(before)
    size_before = tell_size(before) if smaller else None
    charts, table = _show(experiment, seeds)
    card |= {"rules": [asdict(each) for each in judged], "table": asdict(table), "plots": []}
    if not smaller:
        card["plots"] = _write_charts(charts, results.path.with_suffix(""), before.get("plots", []))
        results.record.update(about(experiment), **card)
    card["flips"] = {flip: found for flip in plan.flips_of(experiment)
                    if (found := conclude_flip(experiment, results, plan, flip))}
    store_flips(experiment, results, card["flips"])
    results.look(hash_rules(experiment))
    results.save()
    return {**about(experiment), **card, "machine": results.path.parent.name, "smaller_than": size_before}


def _show(experiment: Experiment, seeds: Sequence[Seed]) -> tuple[Sequence[Chart], Table]:
    try:
        charts = experiment.charts(seeds)
        return charts, experiment.table(seeds) if experiment.table else Table(*rows_of(charts))
    except Exception as error:
        raise RunError(f"{experiment.name}: its charts cannot be made from what its arms gave: "
                       f"{type(error).__name__}: {error}") from error


def about(experiment: Experiment) -> dict[str, Any]:
    return {"name": experiment.name, "number": experiment.number, "title": experiment.title, "claim": experiment.claim,
            "source": experiment.source, "equation": experiment.equation, "refuted": experiment.refuted,
            "flip": experiment.flip_text, "notes": experiment.notes,
            "fixed": asdict(experiment.fixed) if experiment.fixed else None}


def _write_charts(charts: Sequence[Chart], stem: Path, before: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Draw charts beside the results. A chart that the same code drew from the same numbers is left as it is."""
    drawn = {plot["file"]: plot.get("drawn") for plot in before}
    plots = []
    for number, chart in enumerate(charts, 1):
        files = {kind: stem.with_name(f"{stem.name}-{number}.{kind}") for kind in ("svg", "png")}
        plot = {"title": chart.title, "file": files["svg"].name, "drawn": hash_drawing(chart)}
        if drawn.get(plot["file"]) != plot["drawn"] or not all(file.exists() for file in files.values()):
            for kind, file in files.items():
                storage.write_file(file, draw(chart, kind))
        plots.append(plot)
    for file in stem.parent.glob(f"{stem.name}-*.*"):
        if (old := re.fullmatch(rf"{re.escape(stem.name)}-(\d+)\.(svg|png)", file.name)) and int(old[1]) > len(charts):
            storage.remove(file)                             # of a chart that is no longer made
    return plots


# --------------------------------------------------------------------------------------- reading them again


def redraw(experiments: Iterable[Experiment], folder: Path) -> list[tuple[str, str]]:
    """Conclude again all results that are complete, by the rules and charts of today; nothing is measured.

    Returns name and machine of results by other code than today's, which can only be shown as they are.
    """
    old = []
    for each in experiments:
        for path in sorted(folder.glob(f"*/{each.name}.json")):
            results = open_results(folder, each, path.parent.name)
            if not results.arms:
                old.append((each.name, path.parent.name))
            if plan := _largest(each, results, results.record):
                conclude(each, results, plan)
            for flip in each.flips:
                if plan := _largest(each, results, results.record.get("flips", {}).get(flip.name, {}), flip.name):
                    store_flips(each, results, {flip.name: conclude_flip(each, results, plan, flip.name)})
                    results.save()
    return old


def _largest(experiment: Experiment, results: ClaimResults, shown: Mapping[str, Any], flip: str = "") -> RunPlan | None:
    """The largest run that is complete: the one that the card shows, or one that nobody stayed to conclude."""
    sizes = {(True, SEEDS), (False, QUICK_SEEDS), *([size_of(shown)] if "verdict" in shown else [])}
    plans = [RunPlan(seeds, not full, results.path.parent.name) for full, seeds in sorted(sizes)]
    return next((plan for plan in reversed(plans)
                 if all(results.seeds(experiment, plan.settings(each)) is not None for each in {"", flip})), None)


def load_cards(folder: str | Path) -> list[Card]:
    """Every card under a folder of results, in the order of their numbers; machines one after another."""
    loaded = []
    for path in sorted(Path(folder).rglob("*.json")):
        try:
            loaded.append(load_card(path))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RunError(f"{path} is no result of the lab: move it away") from None
    return in_order([card for card in loaded if card is not None])


def in_order(found: Sequence[Card]) -> list[Card]:
    return sorted(found, key=lambda card: (card["number"], card["name"], card["machine"]))


def load_card(path: Path) -> Card | None:
    """A card from its file, charts included; None where nothing was concluded yet, or by rules of another kind."""
    record = json.loads(path.read_text("utf-8"))
    if "verdict" not in record or any("median" not in rule for rule in record["rules"]):
        return None                                          # not concluded yet, or by an earlier version of the lab
    arms = record.pop("arms", {})
    record.pop("ran", None)
    plots = [{**plot, "svg": path.with_name(plot["file"]).read_text("utf-8")} for plot in record.get("plots", [])
             if path.with_name(plot["file"]).exists()]
    return {**record, "machine": path.parent.name, "plots": plots, "csv": _as_csv(record["table"]), "arms": len(arms),
            "flip_told": tell_flips(record), "looked": tell_looks(record), **_where(record.get("where", {}))}


def tell_looks(record: Mapping[str, Any]) -> str:
    """The change of rules or sizes after numbers were seen, in a line; empty where there was none."""
    looks, fixed = record.get("looks", []), record.get("fixed") or {}
    if len(looks) > 1:
        why = f": {fixed['after']}" if fixed.get("after") else ""
        return f"rules changed on {looks[-1]['when']}, after a first look on {looks[0]['when']}{why}"
    return f"changed by {fixed['on']}, after a first look: {fixed['after']}" if fixed.get("after") else ""


def _where(where: Mapping[str, Any]) -> dict[str, str]:
    """The machine in a line, and the day."""
    parts = (str(value) if name == "device" else f"{name} {value}" for name, value in where.items() if name != "when")
    return {"where": ", ".join(parts), "when": where.get("when", "")}


def _as_csv(table: dict[str, Any]) -> str:
    held = io.StringIO()
    csv.writer(held).writerows([table["columns"], *table["rows"]])
    return held.getvalue()
