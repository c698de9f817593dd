"""How the cost of everything grows: time and memory against size, the exponent of each, and what it may be.

    python bench/scaling.py                                   # a few minutes; writes bench/results/scaling_cpu.json
    python bench/scaling.py --quick --only "lm transformer"   # whatever has this in its name
    python bench/scaling.py --part looks --part texts         # some parts of it
    python bench/scaling.py --device cuda                     # families and generation, on a GPU

Parts: a training step of every family along length, batch, width and layers (`families`); prompts, tokens, beams and
blanks (`generation`); the n-gram (`ngrams`); tokenizers, corpora, sentences and batches (`texts`); BLEU, chrF, ROUGE,
alignment errors and perplexity (`metrics`); checkpoints, logs and cards of the lab (`files`); looks and what the page
is sent of them (`looks`). Each curve is fitted over its three largest sizes, time ~ n^p, and p may be at most what
stands beside it: attention n^2 in the length, everything else n. What is above that by 0.45 (bytes by 0.15) is TOO
FAST; `flat` says that at these sizes a call costs the same whatever its size, so that nothing can be said. On a CPU all
of it runs on one thread.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from scaling_parts.curve import Curve, Found, Setting, measure

from regard.lab.results import where

PARTS = ("families", "generation", "ngrams", "texts", "metrics", "files", "looks")
ON_GPU = ("families", "generation")                      # the others never leave the CPU
MOST = {"cpu": 0.08, "cuda": 0.5}                        # seconds a call; a GPU waits for its launches below that
RESULTS = Path(__file__).parent / "results"
HEAD = f"{'':62} {'along':18} {'n':>18} {'last':>11}   {'time':>12}   {'bytes':>12}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="curves with this in their name or axis")
    parser.add_argument("--part", action="append", choices=PARTS, help="by default all, on a GPU those that use it")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, a third of the time")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="where to write; by default results/scaling_DEVICE.json, if all ran")
    options = parser.parse_args()
    setting = Setting(options.device, MOST[options.device] / (3 if options.quick else 1), 2 if options.quick else 3)
    parts = options.part or (ON_GPU if setting.gpu else PARTS)
    complete = not (options.only or options.part or options.quick)
    began = time.perf_counter()
    with scratch():
        found = measured(parts, options.only or [""], setting)
    took = time.perf_counter() - began
    tell(found, took)
    path = options.json or (RESULTS / f"scaling_{options.device}.json" if complete else None)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record(found, setting, took), indent=1) + "\n")
        print(f"wrote {path}")


@contextmanager
def scratch() -> Iterator[None]:
    """All that is written in here is gone afterwards."""
    before = os.environ.get("REGARD_CACHE")
    with tempfile.TemporaryDirectory(prefix="regard-scaling-") as folder:
        tempfile.tempdir = os.environ["REGARD_CACHE"] = folder
        try:
            yield
        finally:
            tempfile.tempdir = None
            del os.environ["REGARD_CACHE"]
            os.environ.update({} if before is None else {"REGARD_CACHE": before})


def measured(parts: Any, names: list[str], setting: Setting) -> list[Found]:
    if not setting.gpu:
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)                   # as training does
    print(HEAD, flush=True)
    found = []
    for curve in chosen(parts, names, setting):
        gc.collect()
        gc.disable()                                     # it would look at everything made before, again and again
        try:
            found.append(measure(curve, setting))
        finally:
            gc.enable()
        print(line(found[-1]), flush=True)
    if not found:
        sys.exit(f"nothing is called {' or '.join(names)}")
    return found


def chosen(parts: Any, names: list[str], setting: Setting) -> Iterator[Curve]:
    for part in parts:
        for curve in importlib.import_module(f"scaling_parts.{part}").curves(setting):
            if any(name in f"{curve.name} {curve.along}" for name in names):
                yield curve


def line(found: Found) -> str:
    curve = found.curve
    sizes = f"{found.sizes[0]:,}..{found.sizes[-1]:,}"
    time = f"{found.exponent:5.2f} of {curve.time:3.1f}"
    held = "" if found.held_exponent is None else f"{found.held_exponent:5.2f} of {curve.held:3.1f}"
    return (f"{curve.name:62} {curve.along:18} {sizes:>18} {1000 * found.times[-1]:8.2f} ms   {time:>12}   {held:>12}"
            f"   {found.verdict}").rstrip()


def tell(found: list[Found], took: float) -> None:
    fast = [each for each in found if each.slow or each.large]
    flat = sum(each.verdict == "flat" for each in found)
    print(f"\n{len(found)} curves in {took:.0f} s: {len(fast)} grow faster than they may, {flat} are flat here")
    for each in fast:
        print(line(each))


def record(found: list[Found], setting: Setting, took: float) -> dict[str, Any]:
    return {"where": where(setting.device), "threads": torch.get_num_threads(), "seconds": round(took, 1),
            "too_fast": [f"{each.curve.name}, {each.curve.along}" for each in found if each.slow or each.large],
            "curves": [each.as_dict() for each in found]}


if __name__ == "__main__":
    main()
