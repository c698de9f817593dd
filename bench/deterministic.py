"""The same bits twice: models are trained in two processes, with --deterministic and without; are the weights equal?

    python bench/deterministic.py --json bench/results/deterministic.json        two minutes on a GPU
    python bench/deterministic.py --compiled --json FILE                         with compiled code for all, and longer
    python bench/deterministic.py --small                                        a smoke test for any machine

Each process trains everything once, in turns with and without, and hashes the weights. Nothing is shared between the
two processes but the machine: what a process chose by timing it, another may choose otherwise. Speeds are of passes
recorded as CUDA graphs, from the second half of the steps; of compiled code one small model is compared, by its bits
alone, unless --compiled is given. A model that fails does not cost the others, and what was found is written after each
process. What is not done after --seconds is left out, and said to be.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LM = dict(batch=64, valid_every=10_000, samples=False, log_every=1)
MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "transformer": ("lm", "transformer", dict(layers=4, width=512, heads=8, context=256, dropout=0.1), LM),
    "lstm": ("lm", "lstm", dict(layers=2, width=512, hidden=512, context=256, dropout=0.1), LM),
    "mamba2": ("lm", "mamba2", dict(layers=2, width=512, context=256), LM),
    "translator": ("translate", "transformer", dict(layers=2, width=256, heads=4, context=64, dropout=0.1),
                   {**LM, "batch": 8192, "widths": 16}),
    "compiled": ("lm", "transformer", dict(layers=1, width=256, heads=4, context=256, dropout=0.1), LM),
}
TINY = dict(layers=1, width=16, heads=2, hidden=16, context=16, batch=4)
MODES = {"plain": False, "deterministic": True}
ANSWERS = {True: "equal", False: "DIFFERENT", None: "not done"}
MEASURED = ("transformer", "lstm", "mamba2", "translator")


def main() -> None:
    options = parsed()
    if options.child:
        train_all(options)
        return
    began, rounds = time.monotonic(), list[dict[str, Any]]()
    result: dict[str, Any] = {"machine": machine(), "steps": options.steps}
    with tempfile.TemporaryDirectory() as folder:
        write_texts(Path(folder), 500 if options.small else 40_000)
        setting = "auto" if options.compiled else "no" if options.small else "capture"
        for number in range(2):
            left = options.seconds - (time.monotonic() - began)
            rounds.append(finish(start(options, folder, setting, MEASURED, number), left))
            write(options, result | {"models": compare(rounds)} if number else result | {"first": rounds[0]})
        result["models"] = compare(rounds)
        if not (options.small or options.compiled):            # side by side: for their bits, not their speed
            left = options.seconds - (time.monotonic() - began)
            both = [start(options, folder, "auto", ("compiled",), number) for number in (2, 3)]
            about = compare([finish(each, left) for each in both])
            result["compiled"] = {name: {key: value for key, value in each.items() if key.startswith("determ")
                                         and "second" not in key} for name, each in about.items()}
    result["wall_seconds"] = round(time.monotonic() - began, 1)
    write(options, result)
    print(json.dumps(result, indent=2))
    print_lines(result)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--small", action="store_true", help="tiny sizes on a CPU")
    parser.add_argument("--compiled", action="store_true", help="compile everything, and measure its speed")
    parser.add_argument("--seconds", type=float, default=170.0, help="what takes longer is left out")
    parser.add_argument("--json", type=Path)
    for name in ("child", "folder", "compile"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--models", help=argparse.SUPPRESS, default="")
    return parser.parse_args()


def write(options: argparse.Namespace, result: dict[str, Any]) -> None:
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def write_texts(folder: Path, lines: int) -> None:
    """Write a text of made-up words, and sentence pairs."""
    chance = random.Random(0)
    words = ["".join(chance.choices("aeiou" * 2 + "bcdfghklmnprst", k=chance.randint(2, 8))) for _ in range(2000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    sentences = [chance.choices(words, weights, k=chance.randint(4, 16)) for _ in range(lines)]
    (folder / "text.txt").write_text("".join(f"{' '.join(each)}\n" for each in sentences))
    (folder / "target.txt").write_text("".join(f"{' '.join(reversed(each))}\n" for each in sentences))


# --------------------------------------------------------------------------------- one process


def start(options: argparse.Namespace, folder: str, compile: str, models: tuple[str, ...], number: int) -> Any:
    """Start a process that trains some models in both modes, with a cache of compiled code of its own."""
    own = Path(folder) / str(number)
    own.mkdir()
    words = ["--child", str(own / "found.json"), "--folder", folder, "--compile", compile, "--steps",
             str(options.steps), "--models", ",".join(models), *(["--small"] if options.small else [])]
    environment = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(own / "compiled"), "TRITON_CACHE_DIR": str(own / "triton"),
        "REGARD_CACHE": str(own / "cache"), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    return own / "found.json", subprocess.Popen([sys.executable, __file__, *words], env=environment)


def finish(started: tuple[Path, subprocess.Popen[bytes]], seconds: float) -> dict[str, Any]:
    """Return what a process found until its time was over."""
    found, process = started
    try:
        process.wait(max(1.0, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        print(f"stopped after {seconds:.0f} s: see --seconds", file=sys.stderr)
    return dict(json.loads(found.read_text())) if found.exists() else {}


def train_all(options: argparse.Namespace) -> None:
    found: dict[str, Any] = {}
    own = Path(options.child)
    for name in options.models.split(","):
        for mode, strict in MODES.items():
            if name == "compiled" and not strict:
                continue                                      # each compiles for a while
            about = found.setdefault(name, {})
            try:
                about[mode] = train(name, strict, options, own.parent / f"{name}-{mode}")
            except Exception as error:                        # it costs this model alone, and is in the outcome
                about[mode] = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
            part = own.with_suffix(".part")
            part.write_text(json.dumps(found))
            os.replace(part, own)
            print(own.parent.name, options.compile, name, mode, json.dumps(about[mode]), file=sys.stderr, flush=True)


def train(name: str, strict: bool, options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Train one model; return the hash of its weights, its last loss and its speed."""
    from regard.training.run import TrainRequest, run_training

    task, family, model, training = MODELS[name]
    folder = Path(options.folder)
    files = ("text.txt", "target.txt")[:1 if task == "lm" else 2]
    if options.small:
        model = {key: TINY.get(key, value) for key, value in model.items()}
        training = {**training, "batch": TINY["batch"] if task == "lm" else 256}
    began = time.monotonic()
    run_training(TrainRequest(
        tuple(str(folder / each) for each in files), task=task, family=family, out=str(out), quiet=True, mix=False,
        device="cpu" if options.small else "auto", tested=False, settings={
            "model": model, "tokenizer": {"kind": "char" if task == "lm" else "word"},
            "training": {**training, "steps": options.steps, "compile": options.compile, "deterministic": strict}}))
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "train_loss" in row]
    return {"sha256": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest(),
            "train_loss": steps[-1]["train_loss"], "tokens_a_second": round(tokens_a_second(steps[len(steps) // 2:])),
            "wall_seconds": round(time.monotonic() - began, 1)}


def tokens_a_second(rows: list[dict[str, Any]]) -> float:
    seconds = rows[-1]["seconds"] - rows[0]["seconds"]
    return (rows[-1]["tokens"] - rows[0]["tokens"]) / seconds if seconds else 0.0


# --------------------------------------------------------------------------------- what was found


def compare(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return for each model whether two processes agree, and the share of the speed that the same bits cost."""
    found: dict[str, Any] = {}
    for name in MODELS:
        both = [each[name] for each in rounds if name in each]
        if not both:
            continue
        about = found.setdefault(name, {})
        for mode in MODES:
            figures = [each.get(mode, {}) for each in both]
            hashes = [each.get("sha256") for each in figures]
            done = [each for each in hashes if each is not None]
            about[f"{mode}: equal weights"] = None if len(done) < 2 else done[0] == done[1]
            about[f"{mode}: losses"] = [each.get("train_loss") for each in figures]
            about[f"{mode}: tokens a second"] = max(each.get("tokens_a_second", 0) for each in figures)
            if errors := [each["error"] for each in figures if "error" in each]:
                about[f"{mode}: errors"] = errors
        plain, strict = (about[f"{mode}: tokens a second"] for mode in MODES)
        about["costs"] = round(1 - strict / plain, 3) if plain and strict else None
    return found


def machine() -> dict[str, str]:
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "cpu"
    return {"device": device, "torch": torch.__version__, "python": platform.python_version()}


def print_lines(result: dict[str, Any]) -> None:
    for name, about in result.get("compiled", {}).items():
        print(f"{name:12} deterministic {ANSWERS[about['deterministic: equal weights']]}")
    for name, about in result["models"].items():
        said = [f"{mode} {ANSWERS[about[f'{mode}: equal weights']]}" for mode in MODES]
        cost = about["costs"]
        print(f"{name:12} {' · '.join(said)} · costs {'unknown' if cost is None else f'{cost:.1%} of the tokens/s'}")


if __name__ == "__main__":
    main()
