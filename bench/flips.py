"""Flips single bits in every file of a run folder, and counts what becomes of them.

    python bench/flips.py --flips 40 --json bench/results/flips.json

A small translator is trained to step 6. Of each of its files one bit is flipped at a time. Then the run is loaded and
used, or, for what only training reads, resumed for a step. A flip is

    refused     an error in one line
    told        a note or a line names the file, and the numbers are the right ones or those of the edited settings
    no effect   nothing is said, and every number is the same
    SILENT      nothing is said, and a number differs: there must be none
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import shutil
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import torch

from regard.corpora import phrasebook
from regard.errors import RegardError
from regard.run_folder import RunFolder
from regard.trained import load
from regard.training.run import TrainRequest, run_training

SOURCES = ("Le chat noir dort.", "Je ne le vois pas.")


def train(folder: Path) -> Path:
    pairs = list(phrasebook.pairs(400))
    for name, side in (("a.fr", "source"), ("a.en", "target")):
        (folder / name).write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs))
    resume(folder, folder / "run", 6, first=True)
    return folder / "run"


def resume(folder: Path, run: Path, steps: int, first: bool = False) -> None:
    model = dict(layers=1, width=16, heads=2, context=32)
    small = {"model": model, "tokenizer": {"kind": "word", "shared": False}} if first else {}
    training = dict(steps=steps, **(dict(batch=256, valid_every=3, checkpoint_every=3, threads=1) if first else {}))
    run_training(TrainRequest((str(folder / "a.fr"), str(folder / "a.en")), task="translate", out=str(run),
                              resume=not first, device="cpu", settings={**small, "training": training}))


def use(run: Path) -> object:
    model = load(run, device="cpu")
    written = model.translate(SOURCES, beam=2)
    return [(each.text, round(each.log_prob, 4)) for each in written], model.score_pairs(SOURCES, SOURCES).nats


def go_on(folder: Path, run: Path) -> object:
    resume(folder, run, 7)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    samples = (run / "samples.jsonl").read_text().splitlines()
    for row in rows:
        row.pop("seconds")
    texts = [json.loads(line)["step"] for line in samples]
    return rows, texts, {name: tensor.sum().item() for name, tensor in RunFolder(run).read_weights().items()}


def outcome(act, name: str, expected: object) -> str:
    said = io.StringIO()
    with warnings.catch_warnings(record=True) as notes, contextlib.redirect_stderr(said):
        warnings.simplefilter("always")
        try:
            found = act()
        except RegardError:
            return "refused"
    words = said.getvalue() + " ".join(str(each.message) for each in notes)
    if Path(name).name in words or "damaged" in words:
        return "told"
    return "no effect" if found == expected else "SILENT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=20, help="of each file")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    chance, results = random.Random(0), {}
    with tempfile.TemporaryDirectory() as where, contextlib.redirect_stderr(io.StringIO()):
        folder = Path(where)
        run = train(folder)
        files = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
        used, resumed = use(run), go_on(folder, shutil.copytree(run, folder / "resumed"))
        for name in files:
            trains = "/" in name or name.endswith(".jsonl")
            counts: Counter[str] = Counter()
            for _ in range(options.flips if not trains else max(1, options.flips // 4)):
                copy = shutil.copytree(run, folder / "copy")
                raw = bytearray((copy / name).read_bytes())
                bit = chance.randrange(8 * len(raw))
                raw[bit // 8] ^= 1 << bit % 8
                (copy / name).write_bytes(raw)
                act = (lambda: go_on(folder, folder / "copy")) if trains else (lambda: use(folder / "copy"))
                counts[outcome(act, name, resumed if trains else used)] += 1
                shutil.rmtree(copy)
            results[name] = dict(counts)
            print(f"{name:42} {', '.join(f'{count} {what}' for what, count in sorted(counts.items()))}", flush=True)
    silent = sum(counts.get("SILENT", 0) for counts in results.values())
    total = sum(sum(counts.values()) for counts in results.values())
    print(f"{total} flips, {silent} silent")
    if options.json:
        options.json.write_text(json.dumps({"flips": total, "silent": silent, "files": results}, indent=1) + "\n")
    raise SystemExit(bool(silent))


if __name__ == "__main__":
    main()
