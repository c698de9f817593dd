"""Training steps of several families and sizes on one GPU: what `regard plan` reckons with, beside bench/gpt2.py.

    python bench/plan_figures.py --json bench/results/plan.json       on a GPU, some 12 minutes; then plan_table.py
    python bench/plan_figures.py --small                              a smoke test, on any machine
    python bench/plan_figures.py --only transformer-350M mamba2       some of them, e.g. where minutes are few

Each case is trained as our loop trains, on random tokens: milliseconds a step and the most memory. What is done is
written after each case, and one that fails says why and costs the others nothing. A plan reckons Muon's seconds without
a figure of its own: the first case is one that a test holds it to.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path
from typing import Any

import torch
from steps import calibration, machine, timed

from regard.config import fill
from regard.families import FAMILIES

VOCAB, AT_ONCE = 50_304, 32_768
GPT2: dict[str, Any] = dict(layers=12, width=768, heads=12, context=1024, tied=True, dropout=0.0)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "transformer-muon": ("transformer", "muon", GPT2),
    "transformer-350M": ("transformer", "adamw", GPT2 | dict(layers=24, width=1024, heads=16)),
    "transformer-1.3B": ("transformer", "adamw", GPT2 | dict(layers=24, width=2048, heads=16)),
    "transformer-10M": ("transformer", "adamw", GPT2 | dict(layers=6, width=384, heads=6, context=256)),
    "mamba2": ("mamba2", "adamw", dict(layers=24, width=768, context=1024, tied=True, dropout=0.0, state=128)),
    "linear-rnn": ("linear-rnn", "adamw", dict(layers=12, width=768, context=1024, tied=True, dropout=0.0)),
    "hybrid": ("hybrid", "adamw", dict(layers=12, width=768, heads=12, context=1024, tied=True, dropout=0.0)),
    "lstm": ("lstm", "adamw", dict(layers=2, width=1024, hidden=1024, context=256, tied=True, dropout=0.0)),
    "gru": ("gru", "adamw", dict(layers=2, width=1024, hidden=1024, context=256, tied=True, dropout=0.0)),
}
SMALL: dict[str, Any] = dict(layers=2, width=32, heads=2, hidden=32, context=32, state=4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = arguments.small or device.type == "cpu"
    result: dict[str, Any] = machine(device) | {"calibration": calibration(device, 256 if small else 8192), "runs": []}
    for name in arguments.only:
        result["runs"] += measure(name, device, arguments.steps, small)
        if arguments.json:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def measure(name: str, device: torch.device, steps: int, small: bool) -> list[dict[str, Any]]:
    """Return the figures of a case; none where it fails, which is printed."""
    family, optimizer, model = CASES[name]
    model, vocab = (model | {key: SMALL[key] for key in model if key in SMALL}, 100) if small else (model, VOCAB)
    kind, rows = FAMILIES[family], 2 if small else AT_ONCE // model["context"]
    assert kind.build is not None
    gc.collect()                                             # the model before this one, and its graphs
    torch.manual_seed(0)
    compiled = "auto" if "heads" in model or "state" in model or family == "linear-rnn" else "no"
    try:
        built = kind.build(fill(kind.settings, model, "model"), vocab).to(device)
        figures = timed(built, rows, model["context"], vocab, compiled=compiled, steps=2 if small else steps,
                        optimizer=optimizer)
    except Exception as error:
        print(json.dumps({"case": name, "failed": " ".join(str(error).split())[:300]}), flush=True)
        return []
    figures = {"case": name, "family": family, "optimizer": optimizer, "model": model, "vocab": vocab, **figures}
    print(json.dumps(figures), flush=True)
    return [figures]


if __name__ == "__main__":
    main()
