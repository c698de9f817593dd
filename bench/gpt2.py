"""Training a Transformer of GPT-2's size on a GPU, by the steps of our own training loop.

    python bench/gpt2.py --json bench/results/gpt2.json
    python bench/gpt2.py --small                                   a smoke test, on any machine

12 layers of 768 in 12 heads, 1,024 tokens, a vocabulary of 50,304, GPT-2's own activation, bfloat16, AdamW, compiled:
forward, backward, clipping and update, on random tokens. nanoGPT on one H200 with torch 2.11: 523,000 tokens a second
with 32 rows, 537,000 with 64 (15.1 and 28.9 GB). Beside it a large product, at once and for seconds on end, and a large
copy, measured in the same run: a slower day shows, and so does a GPU that is slower at its limit of power.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from steps import calibration, machine, sustained, timed

from regard.families.transformer import TransformerSettings, build_transformer

PEER = {32: 523_000, 64: 537_000}          # nanoGPT, tokens a second
RECOMPUTE = {64: "some"}                   # to stay within 20 GB
FULL: dict[str, Any] = dict(layers=12, width=768, heads=12, context=1024, positions="learned", tied=True,
                            activation="gelu-tanh")
SMALL: dict[str, Any] = FULL | dict(layers=2, width=32, heads=2, context=32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[32, 64])
    parser.add_argument("--micro", type=int, default=0, help="Rows at once; 0: all.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", default="auto")
    parser.add_argument("--recompute", help="no, some, activations or cheap; not given: as RECOMPUTE has it")
    parser.add_argument("--activation", default=FULL["activation"])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = arguments.small or device.type == "cpu"
    sizes, vocab = (SMALL, 100) if small else (FULL, 50_304)
    result: dict[str, Any] = machine(device) | {"calibration": calibration(device, 256 if small else 8192), "runs": []}
    for rows in [2] if small else arguments.rows:
        torch.manual_seed(0)
        model = build_transformer(TransformerSettings(**sizes | {"activation": arguments.activation}), vocab).to(device)
        figures = timed(model, rows, sizes["context"], vocab, micro=arguments.micro, compiled=arguments.compile,
                        steps=arguments.steps, recompute=arguments.recompute or RECOMPUTE.get(rows, "no"))
        figures["activation"] = arguments.activation
        if rows in PEER:
            figures |= {"nanogpt": PEER[rows], "ratio": round(figures["tokens_a_second"] / PEER[rows], 3)}
        print(json.dumps(figures), flush=True)
        result["runs"].append(figures)
    result["calibration"]["tflops_sustained"] = sustained(device, *(256, 0.1) if small else (8192, 3.0))
    print(json.dumps(result["calibration"]))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
