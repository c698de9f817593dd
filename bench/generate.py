"""Writing on a GPU: a Transformer of GPT-2's size, one text and many at once, and every family by recorded steps.

    python bench/generate.py --json bench/results/generate.json
    python bench/generate.py --small                               a smoke test, on any machine

12 layers of 768 in bfloat16, 256 new tokens behind a prompt of 16, random weights: prompt, steps and choosing, until
the last token is on the host. The likeliest token, and one drawn of the 200 likeliest. On one H200 with torch 2.11
transformers writes 11 tokens a second for one text and 714 for 64, nanoGPT 11 and 1,046. Then every family at about ten
million weights: steps recorded as a CUDA graph beside steps as they are.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from gpt2 import FULL, SMALL
from steps import calibration, wait

from regard.config import fill
from regard.decoding.fast import recorded_stream
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens
from regard.families import FAMILIES
from regard.families.fit import fit_parameters
from regard.families.transformer import TransformerSettings, build_transformer

PEERS = {1: {"transformers": 11, "nanoGPT": 11}, 64: {"transformers": 714, "nanoGPT": 1046}}
WAYS = {"greedy": Sampling(temperature=0), "top-k 200": Sampling(0.8, top_k=200, seed=1)}
PROMPT = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="*", default=[1, 64])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--skip-families", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = arguments.small or device.type == "cpu"
    tokens = 20 if small else arguments.tokens
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu", "torch": torch.__version__,
        "calibration": calibration(device, 256 if small else 8192), "gpt2": [], "families": []}
    torch.manual_seed(0)
    model = build_transformer(TransformerSettings(**(SMALL if small else FULL)), 100 if small else 50_304)
    model = model.to(device, torch.bfloat16).eval()
    for streams in [1, 2] if small else arguments.streams:
        for name, how in WAYS.items():
            speed = measured(model, streams, tokens, how, device)
            told = {"streams": streams, "way": name, "tokens_a_second": round(speed), "ms_a_step":
                    round(1e3 * streams / speed, 3), **{f"times {peer}": round(speed / figure, 1)
                                                        for peer, figure in PEERS.get(streams, {}).items()}}
            print(json.dumps(told), flush=True)
            result["gpt2"].append(told)
    for family in [] if arguments.skip_families else families(small):
        told = beside_plain(family, device, small, tokens)
        print(json.dumps(told), flush=True)
        result["families"].append(told)
    print(json.dumps(result["calibration"]))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def families(small: bool) -> list[str]:
    trained = [name for name, family in FAMILIES.items() if family.build is not None]
    return trained[:2] if small else trained


def beside_plain(name: str, device: torch.device, small: bool, tokens: int) -> dict[str, Any]:
    """One text: tokens a second by recorded steps, and by steps as they are."""
    family = FAMILIES[name]
    assert family.build is not None
    vocab, weights = (100, 20_000) if small else (8192, 10_000_000)
    settings = fit_parameters(family, fill(family.settings, {}, "model"), vocab, weights)
    model = family.build(settings, vocab).to(device).eval()
    fast = measured(model, 1, tokens, WAYS["greedy"], device)
    fits, recorded_stream.fits = recorded_stream.fits, lambda model, new_tokens: False
    try:
        slow = measured(model, 1, min(tokens, 64), WAYS["greedy"], device)
    finally:
        recorded_stream.fits = fits
    return {"family": name, "parameters": sum(weight.numel() for weight in model.parameters()),
            "tokens_a_second": round(fast), "as it is": round(slow), "ratio": round(fast / slow, 2)}


def measured(model: Any, streams: int, tokens: int, how: Sampling, device: torch.device, repeats: int = 3) -> float:
    """Tokens a second, all streams together; the first time is not counted: kernels are built, the step recorded."""
    chance = torch.Generator().manual_seed(0)
    prompts = torch.randint(4, model.vocab, (streams, PROMPT), generator=chance).tolist()
    times = []
    for _ in range(repeats + 1):
        wait(device)
        began = time.perf_counter()
        written = sum(1 for _ in generate_tokens(model, prompts, new_tokens=tokens, sampling=how))
        wait(device)
        times.append(time.perf_counter() - began)
        assert written == tokens
    return streams * tokens / statistics.median(times[1:])


if __name__ == "__main__":
    main()
