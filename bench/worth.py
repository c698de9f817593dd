"""What the main command makes of its minutes: everything left to it, on texts that nothing was tuned on.

    python bench/worth.py --folder F --text source --minutes 2.5            # or another corpus of bench/regret.py
    python bench/worth.py --folder F --text multi30k-fr-en --minutes 5 --busy 1
    python bench/worth.py --folder F --text code --minutes 2 2.5 5 --device cuda
    python bench/worth.py --folder F --text flickr2016-fr-en --minutes 3 --device cuda --seeds 1 2 3
    python bench/worth.py --folder F --text shakespeare --minutes 2 --device cuda --set=--tokenizer --set=char

Each run is `regard train lm TEXT --minutes M` (or translate SOURCE TARGET) in a process of its own, timed from start to
end, then scored on a part that it never saw. `--busy` sets so many processes beside it that only count. A row is
appended to results/worth.jsonl: seconds by the clock, the share of the budget that went into steps, and the score
beside that of the 5-gram.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from regret_parts.texts import Parts, make_corpora
from regret_parts.trials import TASKS
from worker import cpu

RESULTS = Path(__file__).parent / "results" / "worth.jsonl"
COUNTING = "while True: sum(range(10**6))"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/regret"), help="where the corpora are made")
    parser.add_argument("--text", nargs="+", default=["source"])
    parser.add_argument("--minutes", type=float, nargs="+", default=[2.5])
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--set", action="append", default=[], dest="words", metavar="WORD",
                        help="a further word of the command, as --set=--no-mix; may be given again")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="what training says, and when")
    options = parser.parse_args()
    beside = [subprocess.Popen([sys.executable, "-c", COUNTING]) for _ in range(options.busy)]
    try:
        for parts in make_corpora(options.folder, options.text):
            for minutes, seed in itertools.product(options.minutes, options.seeds):
                row = measure(parts, minutes, seed, options) | {"busy": options.busy} | describe_machine(options.device)
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    finally:
        for process in beside:
            process.kill()


def describe_machine(device: str) -> dict[str, Any]:
    import torch

    gpu = {"gpu": torch.cuda.get_device_name()} if device == "cuda" else {}
    return {"cpu": cpu(), "cores": len(os.sched_getaffinity(0)), **gpu, "torch": torch.__version__}


def measure(parts: Parts, minutes: float, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run, regard = Path(folder) / "run", [sys.executable, "-m", "regard"]
        held = ["--valid", *parts.files("valid")]
        began = time.monotonic()
        run_logged([*regard, "train", TASKS[parts.kind], *parts.files("train"), *held, "--minutes", str(minutes),
                    "--device", options.device, "--seed", str(seed), "--out", str(run), *options.words], options.log)
        seconds = time.monotonic() - began
        told = subprocess.run([*regard, "score", str(run), *parts.files("test"), "--device", options.device, "--json"],
                              check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        tables = tomllib.loads((run / "run.toml").read_text("utf-8"))
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    score = json.loads(told)
    kept = ("bits_per_byte", "network", "n-gram", "mixture", "bleu", "chrf", "loss")
    sizes = {name: value for name, value in tables["model"].items() if name in ("layers", "width", "hidden", "dropout")}
    training, share = tables["training"], seconds_in_steps(rows) / 60 / minutes
    return {"text": parts.name, "minutes": minutes, "seed": seed, **({"words": options.words} if options.words else {}),
            "seconds": round(seconds, 1),
            "of_the_budget": round(seconds / 60 / minutes, 4), "in_steps": round(share, 4), "lead": training["lead"],
            "steps": training["steps"], "family": tables["run"]["family"], "model": sizes,
            "vocab": tables["tokenizer"]["vocab"], **{name: score[name] for name in kept if name in score}}


def run_logged(command: list[str], log: Path) -> None:
    """Run a command; append what it says, and when, to a log."""
    began = time.monotonic()
    with log.open("a", encoding="utf-8") as file, subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            file.write(f"{time.monotonic() - began:7.1f} s  {line}")
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: see {log}")


def seconds_in_steps(rows: list[dict[str, Any]]) -> float:
    """Return the time of all steps: those with a validation before them count as the others do."""
    times, last = [], None
    for row in rows:
        if "train_loss" in row:
            if last is not None:
                times.append((row["seconds"] - last["seconds"]) / (row["step"] - last["step"]))
            last = row
        else:
            last = None
    return statistics.median(times) * rows[-1]["step"] if times else 0.0


if __name__ == "__main__":
    main()
