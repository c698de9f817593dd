"""Learning curves: each family and size of the table on more and more tokens of each corpus, and how fast each one is.

A size on so many tokens gives the same loss on every machine; how many tokens a budget of minutes buys is the machine's
pace. Measured apart, the two say for any machine and budget which family and size would have been best, and what a rule
that chooses them loses.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from worker import Worker, cpu

from regard.families.sizes import ROWS
from regret_parts.files import append, read_rows
from regret_parts.texts import SOURCES, Parts
from regret_parts.trials import Trial, resolve_trial, run_trial, time_trial

Job = dict[str, Any]
SIZES_OF = {"text": {"transformer": "transformer", "linear-rnn": "transformer", "lstm": "gated", "mamba": "mamba",
                     "linear-rnn,attention": "transformer", "linear-rnn,linear-rnn,attention": "transformer"},
            "pairs": {"transformer": "translate-transformer", "rnn-attention": "translate-rnn"}}
TOKENS = {"text": [750_000 * 2**n for n in range(6)], "pairs": [500_000 * 2**n for n in range(5)]}
MOST = {"text": [24e6, 24e6, 12e6, 6e6, 6e6, 6e6], "pairs": [8e6, 8e6, 8e6, 4e6, 4e6, 4e6, 2e6]}     # of each size
VALIDATIONS = {"text": 4, "pairs": 1}      # about so many: those of pairs write texts, which takes longer than steps
BY_DEFAULT = -1.0              # a dropout that the defaults choose
TIMED = ("source", "shakespeare", "multi30k-fr-en", "tatoeba")        # a large and a small vocabulary of each kind


def size_trial(kind: str, family: str, size: int, batch: float = 1.0, dropout: float = BY_DEFAULT) -> Trial:
    """Return one row of the table of sizes, in steps of so many times its batch.

    With a dropout that is given a text is also read at the rates and by the schedule of one that is read few times.
    """
    row = ROWS[SIZES_OF[kind][family], "cpu"][size][1]
    model = {name: value for name, value in row.items() if name in ("layers", "width", "heads", "hidden", "context")}
    if family == "linear-rnn":
        model.pop("heads")
    training: dict[str, Any] = {"batch": int(batch * row["batch"])}
    if dropout != BY_DEFAULT:
        model["dropout"] = dropout
        training |= dict(schedule="cosine", learning_rate=6e-3) if kind == "text" else {}
    if "," in family:
        return {"family": "hybrid", "model": model | {"pattern": family}, "training": training | {"muon_rate": 0.03}}
    return {"family": family, "model": model, "training": training}


def time_size(parts: Parts, job: Job, device: str) -> dict[str, Any]:
    trial = size_trial(parts.kind, job["family"], job["size"], job["batch"])
    return {**time_trial(parts, trial, time.process_time), "cpu": cpu()}


def train_size(parts: Parts, job: Job, device: str) -> dict[str, Any]:
    trial = resolve_trial(parts, size_trial(parts.kind, job["family"], job["size"], job["batch"],
                                            job.get("dropout", BY_DEFAULT)), tokens=job["tokens"])
    trial["training"]["valid_every"] = max(1, job["tokens"] // 1024 // VALIDATIONS[parts.kind])
    found = run_trial(parts, trial, job["tokens"], device, job["seed"])
    kept = ("layers", "width", "hidden", "dropout", "batch", "schedule", "learning_rate", "muon_rate")
    return {**found, "settings": {name: value for table in ("model", "training")
                                  for name, value in trial[table].items() if name in kept}}


RUN: dict[str, Callable[[Parts, Job, str], dict[str, Any]]] = {"paces": time_size, "curves": train_size}


def time_sizes(options: argparse.Namespace) -> None:
    """Time each size on this machine's CPU, one thread each: few at a time, for they share caches and memory."""
    names = ("corpus", "family", "size", "batch")
    jobs = [dict(zip(names, values, strict=True)) for values in product(
        options.corpus or TIMED, *axes(options), options.batches)]
    run_jobs(options, [job for job in jobs if exists(job)], options.results / "paces.jsonl", names)


def draw_curves(options: argparse.Namespace) -> None:
    """Train each size on more and more tokens; the shorter runs of all come first."""
    names = ("corpus", "family", "size", "batch", "tokens", "seed", "dropout")
    jobs = []
    for n, corpus, family, size, batch, seed, dropout in product(
            range(6), options.corpus or SOURCES, *axes(options), options.batches, options.seeds, options.dropouts):
        kind = SOURCES[corpus].kind
        job = dict(zip(names, (corpus, family, size, batch, [*TOKENS[kind], 0][n], seed, dropout), strict=True))
        if exists(job) and options.least <= job["tokens"] <= min(MOST[kind][size], options.most):
            jobs.append(job)
    run_jobs(options, jobs, options.results / "curves.jsonl", names)


def axes(options: argparse.Namespace) -> tuple[list[str], list[int]]:
    families = options.families or list(dict.fromkeys([*SIZES_OF["text"], *SIZES_OF["pairs"]]))
    return families, options.sizes


def exists(job: Job) -> bool:
    """Return whether the corpus has this family, and the family this size."""
    name = SIZES_OF[SOURCES[job["corpus"]].kind].get(job["family"])
    return name is not None and job["size"] < len(ROWS[name, "cpu"])


def run_jobs(options: argparse.Namespace, jobs: list[Job], path: Path, names: tuple[str, ...]) -> None:
    """Run what is not there yet, each job in one of the workers, until the time is up."""
    began, waiting = time.monotonic(), queue.SimpleQueue[Job]()
    done = {tuple(row.get(name, BY_DEFAULT) for name in names) for row in read_rows(path)}
    for job in jobs:
        if tuple(job[name] for name in names) not in done:
            waiting.put(job)

    def work(number: int) -> None:
        words = (options.command, "--folder", options.folder, "--device", options.device)
        with tempfile.TemporaryDirectory() as folder, Worker(
                f"worker{number}", sys.executable, str(Path(__file__).parents[1] / "regret.py"), words, Path(folder),
                1) as worker:
            while time.monotonic() - began < options.seconds and not waiting.empty():
                row = worker.ask(json.dumps(waiting.get()))
                append(path, row)
                print(f"{time.monotonic() - began:5.0f} s", *(row[name] for name in names),
                      {name: row[name] for name in ("tokens_a_second", "valid", "error", "seconds") if name in row},
                      flush=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
