"""From what was measured to a card: the verdict, the table, the charts, and the command that made them.

A card is what the report and the page show. All of it is worked out from the arms that are kept, and can be worked out
again without measuring anything (`redraw`). Where runs of several sizes are kept, the card tells of the largest that is
complete: full over quick, then more seeds over fewer. The same goes for what came out flipped, which also says what the
verdict was with the cause in place, at the same size and seeds.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from regard import storage
from regard.errors import RunError
from regard.lab.charts import draw, drawing, rows_of
from regard.lab.experiment import Chart, Experiment, Seed, Table
from regard.lab.results import Kept, open_results
from regard.lab.runner import QUICK_SEEDS, SEEDS, Plan
from regard.lab.verdict import Judged, as_dicts, judge

Card = dict[str, Any]


# ---------------------------------------------------------------------------------------------- concluding


def conclude(experiment: Experiment, kept: Kept, plan: Plan) -> Card | None:
    """What came out of a run; None while something is missing. The card on disk is brought up to date with it.

    A run that is smaller than the one the card tells of leaves the card as it is, and says so in `smaller_than`.
    """
    seeds = kept.seeds(experiment, plan.settings)
    if seeds is None:
        return None
    own = _told(experiment, kept, plan, seeds)
    before = kept.record.get("flipped") or {} if plan.flipped else kept.record
    smaller = _size(own) < _size(before)
    if plan.flipped:
        own["unflipped"] = _verdict(experiment, kept, replace(plan, flipped=False))
        kept.record["flipped"] = before if smaller else own
    else:
        charts, table = _shown(experiment, seeds)
        own |= {"table": asdict(table), "plots": []}
        if not smaller:
            own["plots"] = _write_charts(charts, kept.path.with_suffix(""), before.get("plots", []))
            kept.record.update(about(experiment), **own)
    _compare_flipped(experiment, kept)
    kept.save()
    return {**about(experiment), **own, "machine": kept.path.parent.name,
            "smaller_than": size_told(before) if smaller else None}


def _told(experiment: Experiment, kept: Kept, plan: Plan, seeds: Sequence[Seed]) -> Card:
    verdict, judged = _judged(experiment, seeds)
    return {"verdict": verdict, "rules": as_dicts(judged), "seeds": plan.seeds, "quick": plan.quick,
            "seconds": round(kept.seconds(experiment, plan.settings), 1), "command": command(experiment, plan),
            "where": kept.ran(plan.settings[0])}


def _judged(experiment: Experiment, seeds: Sequence[Seed]) -> tuple[str, list[Judged]]:
    try:
        return judge(experiment, seeds)
    except Exception as error:
        raise RunError(f"{experiment.name}: its rules cannot be worked out from what its arms gave: "
                       f"{type(error).__name__}: {error}") from error


def _shown(experiment: Experiment, seeds: Sequence[Seed]) -> tuple[Sequence[Chart], Table]:
    try:
        charts = experiment.charts(seeds)
        return charts, experiment.table(seeds) if experiment.table else Table(*rows_of(charts))
    except Exception as error:
        raise RunError(f"{experiment.name}: its charts cannot be made from what its arms gave: "
                       f"{type(error).__name__}: {error}") from error


def _verdict(experiment: Experiment, kept: Kept, plan: Plan) -> str | None:
    seeds = kept.seeds(experiment, plan.settings)
    return None if seeds is None else _judged(experiment, seeds)[0]


def _compare_flipped(experiment: Experiment, kept: Kept) -> None:
    """What was flipped is held against a run of its own size, which may have come after it."""
    if flipped := kept.record.get("flipped"):
        flipped["unflipped"] = _verdict(experiment, kept, Plan(flipped["seeds"], flipped["quick"]))


def _size(told: Mapping[str, Any]) -> tuple[bool, int]:
    return (not told["quick"], told["seeds"]) if "verdict" in told else (False, 0)


def size_told(told: Mapping[str, Any]) -> str:
    return f"{'quick' if told['quick'] else 'full'}, {told['seeds']} seed{'s' * (told['seeds'] != 1)}"


def about(experiment: Experiment) -> dict[str, Any]:
    return {"name": experiment.name, "number": experiment.number, "title": experiment.title, "claim": experiment.claim,
            "source": experiment.source, "equation": experiment.equation, "refuted": experiment.refuted,
            "rule": experiment.rule_text, "flip": experiment.flip, "notes": experiment.notes}


def command(experiment: Experiment, plan: Plan) -> str:
    parts = ["regard lab", "flip" if plan.flipped else "run", experiment.name, f"--seeds {plan.seeds}"]
    parts += ["--quick"] * plan.quick + [f"--device {plan.device}"] * (plan.device != "cpu")
    return " ".join(parts)


def _write_charts(charts: Sequence[Chart], stem: Path, before: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Draw them beside the results; what would be drawn by the same code from the same numbers is left as it is."""
    drawn = {plot["file"]: plot.get("drawn") for plot in before}
    told = []
    for number, chart in enumerate(charts, 1):
        files = {kind: stem.with_name(f"{stem.name}-{number}.{kind}") for kind in ("svg", "png")}
        plot = {"title": chart.title, "file": files["svg"].name, "drawn": drawing(chart)}
        if drawn.get(plot["file"]) != plot["drawn"] or not all(file.exists() for file in files.values()):
            for kind, file in files.items():
                storage.write_file(file, draw(chart, kind))
        told.append(plot)
    for file in stem.parent.glob(f"{stem.name}-*.*"):
        if (old := re.fullmatch(rf"{re.escape(stem.name)}-(\d+)\.(svg|png)", file.name)) and int(old[1]) > len(charts):
            storage.remove(file)                             # of a chart that is no longer made
    return told


# ------------------------------------------------------------------------------------------------ flipping


def did_change(flipped: Mapping[str, Any]) -> bool | None:
    """Whether taking the cause away changed the verdict; None where there is nothing of that size to compare with."""
    return None if flipped.get("unflipped") is None else flipped["unflipped"] != flipped["verdict"]


def flip_told(card: Mapping[str, Any]) -> str:
    """What flipping did, in a few words: `holds -> fails (quick)`."""
    flipped = card.get("flipped")
    if not flipped:
        return "not run"
    sizes = ["quick"] * bool(flipped.get("quick"))
    if "seeds" in flipped and flipped["seeds"] != card.get("seeds"):
        sizes.append(f"{flipped['seeds']} seeds")
    size = f" ({', '.join(sizes)})" if sizes else ""
    changed = did_change(flipped)
    if changed is None:
        return f"{flipped['verdict']}{size}; not run at that size as it is"
    arrow = f"{flipped['unflipped']} -> {flipped['verdict']}{size}"
    return arrow if changed else f"{arrow}: flipping did not change it"


# --------------------------------------------------------------------------------------- reading them again


def redraw(experiments: Iterable[Experiment], folder: Path) -> list[tuple[str, str]]:
    """Conclude again whatever is kept and complete, by its rules and charts of today; nothing is measured.

    Gives name and machine of results by other code than today's, which can only be shown as they are.
    """
    old = []
    for each in experiments:
        for path in sorted(folder.glob(f"*/{each.name}.json")):
            kept = open_results(folder, each, path.parent.name)
            if not kept.arms:
                old.append((each.name, path.parent.name))
            for flipped in (False, True):
                if plan := _largest(each, kept, flipped):
                    conclude(each, kept, plan)
    return old


def _largest(experiment: Experiment, kept: Kept, flipped: bool) -> Plan | None:
    """The largest run that is complete: the one on the card, or one that nobody stayed to conclude."""
    told = (kept.record.get("flipped") or {}) if flipped else kept.record
    sizes = {(True, SEEDS), (False, QUICK_SEEDS), *([_size(told)] if "verdict" in told else [])}
    plans = [Plan(seeds, not full, kept.path.parent.name, flipped) for full, seeds in sorted(sizes)]
    return next((plan for plan in reversed(plans) if kept.seeds(experiment, plan.settings) is not None), None)


def cards(folder: str | Path) -> list[Card]:
    """Every card under a folder of results, in the order of their numbers; machines one after another."""
    found = []
    for path in sorted(Path(folder).rglob("*.json")):
        try:
            found.append(card_of(path))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RunError(f"{path} is no result of the lab: move it away") from None
    return in_order([card for card in found if card is not None])


def in_order(found: Sequence[Card]) -> list[Card]:
    return sorted(found, key=lambda card: (card["number"], card["name"], card["machine"]))


def card_of(path: Path) -> Card | None:
    """A card from its file, charts included; None where nothing has been concluded yet."""
    record = json.loads(path.read_text())
    if "verdict" not in record or "rules" not in record:
        return None
    arms = record.pop("arms", {})
    record.pop("ran", None)
    plots = [{**plot, "svg": path.with_name(plot["file"]).read_text()} for plot in record.get("plots", [])
             if path.with_name(plot["file"]).exists()]
    return {**record, "machine": path.parent.name, "plots": plots, "csv": _as_csv(record["table"]), "arms": len(arms),
            "flip_told": flip_told(record), **_where(record.get("where", {}))}


def _where(where: Mapping[str, Any]) -> dict[str, str]:
    """Where it was run, in a line, and when."""
    told = (str(value) if name == "device" else f"{name} {value}" for name, value in where.items() if name != "when")
    return {"where": ", ".join(told), "when": where.get("when", "")}


def _as_csv(table: dict[str, Any]) -> str:
    held = io.StringIO()
    csv.writer(held).writerows([table["columns"], *table["rows"]])
    return held.getvalue()
