"""Shakespeare by character at nanoGPT's GPU setting: how long until our validation loss is below its best?

    python bench/gpu_lm.py tinyshakespeare.txt --json bench/results/gpu_lm.json

Setting: 6 layers, 6 heads, width 384, context 256, batch 64; the rest is our default. nanoGPT's own script, on one
H200 with torch 2.11, took 156 s for its 5,000 steps and reached its best validation loss, 1.4577, near step 1,750.
Seconds here are wall seconds of the whole run, from reading the text on, compiling included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch

from regard.training.run import TrainRequest, run_training

NANOGPT = {"best_loss": 1.4577, "seconds_5000_steps": 156.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.NAME=VALUE")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(arguments, Path(folder) / "run")
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def run(arguments: argparse.Namespace, out: Path) -> dict[str, object]:
    from regard.config import parse_assignments

    settings: dict[str, dict[str, object]] = {
        "model": {"layers": 6, "heads": 6, "width": 384, "context": 256},
        "training": {"batch": 64, "steps": arguments.steps, "valid_every": max(1, arguments.steps // 12)},
        "tokenizer": {"kind": "char"},
        "data": {"halve": False},                    # nanoGPT holds out one part
    }
    for table, values in parse_assignments(arguments.set).items():
        settings.setdefault(table, {}).update(values)
    began = time.monotonic()
    model = run_training(TrainRequest((arguments.text,), out=str(out), settings=settings))
    seconds = time.monotonic() - began
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    valid = [row for row in rows if "valid_loss" in row]
    best = min(valid, key=lambda row: row["valid_loss"])
    times = [row["seconds"] for row in rows if "train_loss" in row]
    steady = statistics.median(after - before for before, after in pairwise(times[len(times) // 2:]))
    setup = seconds - rows[-1]["seconds"]
    compiled = next(row["seconds"] for row in rows if "train_loss" in row)             # when the first step was done
    passed = next((row for row in valid if row["valid_loss"] < NANOGPT["best_loss"]), None)
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "steps": arguments.steps, "parameters": model.parameters, "set": arguments.set,
        "best_valid_loss": best["valid_loss"], "at_step": best["step"],
        "wall_seconds_to_best": round(best["seconds"] + setup, 1), "wall_seconds": round(seconds, 1),
        "seconds_to_nanogpts_best_after_compiling": None if passed is None else round(passed["seconds"] - compiled, 1),
        "compiling_seconds": round(compiled, 1),
        "ms_a_step": round(steady * 1000, 2), "tokens_a_second": round(64 * 256 / steady),
        "validations": [(row["step"], round(row["valid_loss"], 4), round(row["seconds"] + setup, 1)) for row in valid],
        "nanogpt": NANOGPT,
        "ratio_of_wall_time": round((best["seconds"] + setup) / NANOGPT["seconds_5000_steps"], 3),
    }


if __name__ == "__main__":
    main()
