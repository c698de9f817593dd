"""The regret of our defaults: what the untouched command loses against a search, on texts that nothing was tuned on.

    python bench/regret.py paces --folder F                         # on a quiet machine: how fast each size is
    python bench/regret.py search --folder F --device cuda          # anywhere: trials cost tokens, not minutes
    python bench/regret.py confirm --folder F --device cuda         # the default and the best found, by fresh seeds
    python bench/regret.py table                                    # the regret, on the part test
    python bench/regret.py curves --folder F --device cuda          # each size on more and more tokens
    python bench/regret.py losses --minutes 1 5 20                  # what each family by default loses, from curves

A search draws 30 changes to the defaults (family, size, batch, rates, dropout, decay, vocabulary, schedule, context),
tries them all for the shortest budget, the best third of them for the next, and the best third of those for the
longest; the default runs for each. A budget of minutes on one core of the reference machine becomes tokens by the speed
that was timed there, so the search itself may run on any machine. Everything found is appended to results/regret; what
is there is not run again, so a search can be stopped and goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from regret_parts import curves, losses
from regret_parts.changes import FIRST_OF_GRID, GRID, apply_change, draw_change, keep_settings, tokens_for
from regret_parts.files import append, read_rows
from regret_parts.paces import Paces
from regret_parts.texts import SOURCES, Parts, make_corpora
from regret_parts.trials import resolve_trial, run_trial
from worker import Worker

Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results" / "regret"
TRIALS = 30
GOING_ON = 3                   # one in so many changes goes on to the next budget
FRESH = (1, 2, 3)              # seeds that no search has seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("search", "confirm", "paces", "curves", "losses", "table"))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/regret"), help="where the corpora are made")
    parser.add_argument("--corpus", nargs="+", default=[])
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0, 5.0, 20.0], help="budgets, shortest first")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--grid", action="store_true", help="search: the changes of a list, not drawn ones")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no trial after so many")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--families", nargs="+", default=[], help="paces, curves: these alone")
    parser.add_argument("--sizes", type=int, nargs="+", default=[0, 1, 2, 3, 4, 5, 6], help="rows of the table")
    parser.add_argument("--batches", type=float, nargs="+", default=[1.0], help="times the batch of the table")
    parser.add_argument("--dropouts", type=float, nargs="+", default=[curves.BY_DEFAULT], help="-1: by default")
    parser.add_argument("--least", type=float, default=1, help="curves: tokens")
    parser.add_argument("--most", type=float, default=float("inf"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options)
    options.results.mkdir(parents=True, exist_ok=True)
    commands = {"search": search, "confirm": confirm, "table": print_table, "paces": curves.time_sizes,
                "curves": curves.draw_curves, "losses": losses.print_losses}
    commands[options.command](options)


# ------------------------------------------------------------------------------------------------ search


class Ladder:
    """The search on one corpus: budgets, and the changes that are tried for each."""

    def __init__(self, parts: Parts, minutes: list[float], trials: int, rows: list[Row], grid: bool = False):
        self.parts, self.minutes, self.rung, self.going_on = parts, minutes, 0, 2 if grid else GOING_ON
        self.numbers = [FIRST_OF_GRID + n for n in range(len(GRID[parts.kind]))] if grid else [*range(1, trials + 1)]
        self.found = {(row["minutes"], row["number"]): row for row in rows if row["corpus"] == parts.name}

    def first(self) -> list[Row]:
        """Return the runs of the default, and those of the first rung."""
        return [self.job(minutes, 0) for minutes in self.minutes] + self.jobs()

    def jobs(self) -> list[Row]:
        """Return what is to be run at this rung; where all is there, go on to the next."""
        while self.rung < len(self.minutes):
            minutes = self.minutes[self.rung]
            missing = [number for number in self.numbers if (minutes, number) not in self.found]
            if missing:
                return [self.job(minutes, number) for number in missing]
            self.numbers.sort(key=lambda number: judge(self.found[minutes, number]))
            self.numbers = self.numbers[: max(1, len(self.numbers) // self.going_on)]
            self.rung += 1
        return []

    def job(self, minutes: float, number: int) -> Row:
        return {"corpus": self.parts.name, "minutes": minutes, "number": number, "seed": 0,
                "change": draw_change(self.parts.kind, number)}

    def add(self, row: Row) -> list[Row]:
        """Keep a result; return the runs that can begin now, if it was the last of its rung."""
        self.found[row["minutes"], row["number"]] = row
        if self.rung == len(self.minutes) or row["minutes"] != self.minutes[self.rung] or not row["number"] or any(
                (row["minutes"], number) not in self.found for number in self.numbers):
            return []
        return self.jobs()


def judge(row: Row) -> float:
    """The number to minimise, on the part valid: bits per byte of the mixture, or minus BLEU."""
    if "error" in row:
        return float("inf")
    valid = row["valid"]
    return valid["mixture"] if "mixture" in valid else 1e-4 * valid["loss"] - valid["bleu"]


def search(options: argparse.Namespace) -> None:
    """Run the ladders of all corpora side by side."""
    path = options.results / "trials.jsonl"
    rows = read_rows(path)
    ladders = {parts.name: Ladder(parts, options.minutes, options.trials, rows, options.grid)
               for parts in make_corpora(options.folder, options.corpus)}
    begin = [job for ladder in ladders.values() for job in ladder.first()
             if (job["minutes"], job["number"]) not in ladder.found]
    run_jobs(options, path, begin, lambda row: ladders[row["corpus"]].add(row))


def confirm(options: argparse.Namespace) -> None:
    """Run the default and the best found again by fresh seeds."""
    path = options.results / "confirmed.jsonl"
    done = {(row["corpus"], row["minutes"], row["number"], row["seed"]) for row in read_rows(path)}
    found = ("trial", "tokens")              # the default is what it is now
    jobs = [{name: row[name] for name in ("corpus", "minutes", "number", "change", *(found if row["number"] else ()))}
            | {"seed": seed} for row in chosen(options) for seed in FRESH]
    run_jobs(options, path, [job for job in jobs if (job["corpus"], job["minutes"], job["number"], job["seed"])
                             not in done], lambda row: [])


def chosen(options: argparse.Namespace) -> Iterator[Row]:
    """For each corpus and budget yield the default as it is now, and the best of all trials."""
    cells: dict[tuple[str, float], list[Row]] = defaultdict(list)
    for row in read_rows(options.results / "trials.jsonl"):
        if row["minutes"] in options.minutes and (not options.corpus or row["corpus"] in options.corpus):
            cells[row["corpus"], row["minutes"]].append(row)
    for (corpus, minutes), found in cells.items():
        yield {"corpus": corpus, "minutes": minutes, "number": 0, "change": {}}
        yield min((row for row in found if row["number"]), key=judge)


def run_jobs(options: argparse.Namespace, path: Path, begin: list[Row], add: Callable[[Row], list[Row]]) -> None:
    """Run jobs in as many workers, long ones first; `add` takes a result and returns the jobs that follow from it."""
    began, lock, count = time.monotonic(), threading.Lock(), itertools.count()
    waiting: queue.PriorityQueue[Any] = queue.PriorityQueue()
    running = 0

    def put(jobs: list[Row]) -> None:
        for job in jobs:
            waiting.put((-job["minutes"], next(count), job))

    def work(number: int) -> None:
        nonlocal running
        words = (options.command, "--folder", options.folder, "--device", options.device, "--results", options.results)
        with tempfile.TemporaryDirectory() as folder, Worker(
                f"worker{number}", sys.executable, __file__, words, Path(folder), 1) as worker:
            while time.monotonic() - began < options.seconds:
                with lock:
                    job = None if waiting.empty() else waiting.get()[-1]
                    running += job is not None
                    if job is None and not running:
                        return
                if job is None:
                    time.sleep(0.5)
                    continue
                row = worker.ask(json.dumps(job))
                with lock:
                    running -= 1
                    append(path, row)
                    put(add(row))
                    print(f"{time.monotonic() - began:5.0f} s {row['corpus']:15} {row['minutes']:4g} min "
                          f"{row['number']:3} {judge(row):9.4f} {row.get('seconds', row.get('error'))} "
                          f"{json.dumps(row['change'])}", flush=True)

    put(begin)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def serve(options: argparse.Namespace) -> None:
    """Answer jobs, a line each, until there are no more."""
    answer = sys.stdout
    sys.stdout = sys.stderr
    corpora = {parts.name: parts for parts in make_corpora(options.folder)}
    print(json.dumps({"ready": True}), file=answer, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            run = curves.RUN.get(options.command)
            found = run(corpora[job["corpus"]], job, options.device) if run else run_change(
                corpora[job["corpus"]], job, options)
        except Exception as error:                  # a trial that diverges, or does not fit, has lost: that is said
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(job | found), file=answer, flush=True)


def run_change(parts: Parts, job: Row, options: argparse.Namespace) -> Row:
    """Train with a change to the defaults on the tokens of its budget, or with settings found before; return scores."""
    if "trial" in job:
        trial, tokens = resolve_trial(parts, job["trial"], minutes=job["minutes"]), job["tokens"]
    else:
        trial = apply_change(parts, job["change"], job["minutes"])
        tokens = tokens_for(parts, trial, job["minutes"], Paces(options.results / "paces.jsonl"))
    trial["training"]["valid_every"] = max(1, tokens // 1024 // curves.VALIDATIONS[parts.kind])
    judged = ("valid",) if options.command == "search" else ("valid", "test")
    found = run_trial(parts, trial, tokens, options.device, job["seed"], judged)
    tokenizer = found.pop("tokenizer")
    return {**found, "trial": keep_settings(trial, tokenizer)}


# ------------------------------------------------------------------------------------------------- table


def print_table(options: argparse.Namespace) -> None:
    """Print for each corpus and budget the default, the best found and the regret, all on test, by fresh seeds."""
    scores: dict[tuple[str, float, int], list[float]] = defaultdict(list)
    for row in read_rows(options.results / "confirmed.jsonl"):
        if "test" in row:
            scores[row["corpus"], row["minutes"], row["number"]].append(losses.score(row["test"]))
    regrets: dict[str, list[float]] = defaultdict(list)
    print(f"{'corpus':15} {'min':>3} {'default':>9} {'best':>9} {'regret':>7} {'spread':>7}  the best")
    for row in sorted(chosen(options), key=lambda row: (SOURCES[row["corpus"]].kind, row["corpus"], row["minutes"])):
        default, best = (scores.get((row["corpus"], row["minutes"], number), []) for number in (0, row["number"]))
        if not (row["number"] and default and best):
            continue
        lost = losses.loss_of(float(np.mean(default)), float(np.mean(best)))
        spread = losses.loss_of(max(default), min(default))
        regrets[SOURCES[row["corpus"]].kind].append(lost)
        print(f"{row['corpus']:15} {row['minutes']:3g} {abs(np.mean(default)):9.4f} {abs(np.mean(best)):9.4f} "
              f"{lost:7.2f} {spread:7.2f}  {json.dumps(row['change'])}")
    for kind, lost in regrets.items():
        print(f"{kind}: median {np.median(lost):.2f}, worst {max(lost):.2f} of {len(lost)}"
              f" ({'BLEU' if kind == 'pairs' else 'percent'})")


if __name__ == "__main__":
    main()
