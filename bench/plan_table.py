"""The figures that `regard plan` reckons with, from those measured on one GPU.

    python bench/plan_table.py --write          regard/planning/measured.json, from bench/results

A row is the median over the machines on which the same model was measured, with the operations a second and the bytes
a channel that follow from it (regard/planning/figures.py). A test holds the file equal to what this finds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from regard.config import fill
from regard.families import FAMILIES
from regard.planning.blueprint import Blueprint, draw_blueprint
from regard.planning.figures import PATH, operations_a_second
from regard.planning.rank_memory import held_by_one
from regard.training.settings import TrainingSettings

RESULTS = Path(__file__).parent / "results"
# As bench/gpt2.py and bench/mamba.py build them.
GPT2: dict[str, Any] = dict(layers=12, width=768, heads=12, context=1024, positions="learned", tied=True,
                            activation="gelu-tanh")
MAMBA: dict[str, Any] = dict(layers=24, width=768, context=1024, tied=True, decay="channel")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    table = format_table(find_figures())
    if arguments.write:
        PATH.write_text(table, "utf-8")
    else:
        print(table, end="")


def format_table(figures: list[dict[str, Any]]) -> str:
    return json.dumps({"by": "python bench/plan_table.py --write", "figures": figures}, indent=1) + "\n"


def find_figures() -> list[dict[str, Any]]:
    """Return a row for each model and way to recompute; what `bench/plan_figures.py` measured follows the others."""
    runs = [run for path in sorted(RESULTS.glob("gpt2*.json")) for run in runs_of(path, "runs", GPT2, "transformer")]
    runs += runs_of(RESULTS / "mamba.json", "train", MAMBA, "mamba")
    measured = RESULTS / "plan.json"
    runs += runs_of(measured, "runs", None, "") if measured.exists() else []
    alike = defaultdict(list)
    for run in runs:
        if run["optimizer"] == "adamw":                # Muon's seconds are reckoned, and tested with what was measured
            alike[run["family"], run["recompute"], run["parameters"], run["tokens"]].append(run)
    return [row_of(group) for group in alike.values()]


def runs_of(path: Path, key: str, model: dict[str, Any] | None, family: str) -> list[dict[str, Any]]:
    """Return the runs of a file: those of `plan.json` say of which model they are."""
    found = json.loads(path.read_text())
    device = found.get("device") or found["machine"]
    common = {"device": device, "copies": found["calibration"]["copy_tb_s"] * 1e12,
              "source": f"bench/results/{path.name}"}
    vocab = found.get("sizes", {}).get("vocab", 50_304)
    rows = []
    for run in found[key]:
        settings = run.get("model", model)
        rows.append({**common, "family": run.get("family", family), "optimizer": run.get("optimizer", "adamw"),
                     "model": settings, "vocab": run.get("vocab", vocab), "recompute": run["recompute"],
                     "parameters": run["parameters"], "milliseconds": run["ms_a_step"], "peak_gb": run["peak_gb"],
                     "tokens": run["rows"] * settings["context"]})
    return rows


def row_of(group: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of some runs of one model, and what follows from them."""
    first = group[0]
    blueprint = blueprint_of(first)
    if blueprint.parameters != first["parameters"]:
        raise SystemExit(f"{first['source']}: the {first['family']} has {blueprint.parameters:,} weights, and had "
                         f"{first['parameters']:,}: measure it again")
    milliseconds, peak, copies = (statistics.median(run[name] for run in group)
                                  for name in ("milliseconds", "peak_gb", "copies"))
    tokens = first["tokens"]
    kept = (peak * 1e9 - sum(held_by_one(blueprint, 1).values())) / (tokens * blueprint.channels)
    return {**{name: first[name] for name in ("family", "optimizer", "recompute", "device", "parameters", "tokens")},
            "milliseconds": round(milliseconds, 2), "peak_gb": round(peak, 2), "copies": round(copies, -9),
            "operations": round(operations_a_second(blueprint, tokens, milliseconds / 1e3, copies), -10),
            "channel_bytes": round(kept, 4), "sources": sorted({run["source"] for run in group})}


def blueprint_of(run: dict[str, Any]) -> Blueprint:
    family = FAMILIES[run["family"]]
    return draw_blueprint(family, fill(family.settings, run["model"], "model"),
                        TrainingSettings(optimizer=run["optimizer"], recompute=run["recompute"]), run["vocab"])


if __name__ == "__main__":
    main()
