"""Shakespeare by character on a CPU: loss, milliseconds a step and tokens a second, beside nanoGPT's figures.

    python bench/cpu_lm.py tinyshakespeare.txt                    all of these, one after the other:
    python bench/cpu_lm.py tinyshakespeare.txt --only adamw       nanoGPT's sizes and 2,000 steps, its kind of optimizer
    python bench/cpu_lm.py tinyshakespeare.txt --only muon        the same with our default optimizer
    python bench/cpu_lm.py tinyshakespeare.txt --only default     our defaults, in the wall time nanoGPT took

nanoGPT's documented CPU run, measured on the same kind of machine (2 cores): validation loss 1.8857 after 2,000
steps, 153 s, 69 ms a step, 11,100 tokens/s. Our seconds are wall seconds of the whole run, from reading the text on;
our validation loss is over the whole held-out tenth.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from regard.training.run import TrainRequest, run_training

NANOGPT = {"valid_loss": 1.8857, "seconds": 153.0, "ms_a_step": 69.0, "tokens_a_second": 768 / 0.069}

SAME = {"layers": 4, "heads": 4, "width": 128, "context": 64, "dropout": 0.0}
STEPS = {"batch": 12, "steps": 2000, "valid_every": 1000}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "adamw": {"model": SAME, "training": {**STEPS, "optimizer": "adamw", "learning_rate": 4e-3, "beta2": 0.99}},
    "muon": {"model": SAME, "training": STEPS},
    "default": {"training": {"minutes": NANOGPT["seconds"] / 60}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("--only", choices=SETTINGS)
    parser.add_argument("--json", type=Path, help="Also write the figures to this file.")
    arguments = parser.parse_args()
    figures = {name: measure(arguments.text, SETTINGS[name]) for name in SETTINGS if arguments.only in (None, name)}
    for name, figure in figures.items():
        print(f"\n{name}")
        print(f"  validation loss {figure['valid_loss']:.4f}   (nanoGPT {NANOGPT['valid_loss']})")
        print(f"  wall seconds    {figure['seconds']:.1f}   (nanoGPT {NANOGPT['seconds']:.0f})")
        print(f"  ms a step       {figure['ms_a_step']:.1f}   (nanoGPT {NANOGPT['ms_a_step']:.0f}, of 768 tokens each)")
        print(f"  tokens a second {figure['tokens_a_second']:,.0f}   (nanoGPT {NANOGPT['tokens_a_second']:,.0f}; "
              f"ratio {figure['tokens_a_second'] / NANOGPT['tokens_a_second']:.2f})")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({**figures, "nanogpt": NANOGPT}, indent=2) + "\n")


def measure(text: str, settings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        began = time.monotonic()
        own = {"tokenizer": {"kind": "char"}, "data": {"halve": False}}        # nanoGPT holds out one part
        order = TrainRequest((text,), out=str(out), settings={**own, **settings}, device="cpu")
        model = run_training(order)
        seconds = time.monotonic() - began
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "train_loss" in row]
    step = statistics.median(after["seconds"] - before["seconds"] for before, after in pairwise(steps))
    return {
        "valid_loss": min(row["valid_loss"] for row in rows if "valid_loss" in row),
        "seconds": seconds, "steps": steps[-1]["step"], "parameters": model.parameters,
        "ms_a_step": step * 1000, "tokens_a_second": steps[-1]["tokens"] / steps[-1]["step"] / step,
        "settings": model.tables["model"],
    }


if __name__ == "__main__":
    main()
