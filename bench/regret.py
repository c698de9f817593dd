"""The regret of our defaults: what the untouched command loses against a search, on texts that nothing was tuned on.

    python bench/regret.py speeds --folder F                        # on two quiet cores: how fast each trial would be
    python bench/regret.py search --folder F --minutes 1 5          # anywhere: trials cost tokens, not minutes
    python bench/regret.py families --folder F --minutes 1 5        # each candidate with its own defaults
    python bench/regret.py paces --folder F                         # how fast each size is, on a quiet machine
    python bench/regret.py curves --folder F --device cuda          # anywhere: each size on more and more tokens
    python bench/regret.py losses --minutes 1 5 20                  # what each family by default loses, from these two
    python bench/regret.py table                                    # what was found so far

A search draws 30 trials (family, size, batch, rates, dropout, vocabulary, schedule) for each corpus and budget. All get
a ninth of the budget, the best third of them a third of it, the best third of those all of it. A budget of minutes on
two cores becomes tokens by the speed that was timed there, so the search itself may run on any machine. Everything
found is appended to results/regret; what is there is not run again, so a search can be stopped and goes on.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regret_parts import curves, losses
from regret_parts.files import append, read_rows
from regret_parts.texts import Parts, make_corpora
from regret_parts.trials import CANDIDATES, default_trial, draw_trial, grid_trials, key, run_trial, time_trial
from worker import Worker, cpu

RESULTS = Path(__file__).parent / "results" / "regret"
TRIALS = 30
RUNGS = (1 / 9, 1 / 3, 1.0)
IN_STEPS = 0.85                # of a budget of minutes goes into steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("speeds", "search", "families", "paces", "curves", "losses", "table"))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/regret"), help="where the corpora are made")
    parser.add_argument("--corpus", nargs="+", default=[])
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0])
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--grid", action="store_true", help="speeds: of a grid around the best of a first search")
    parser.add_argument("--rungs", type=float, nargs="+", default=RUNGS, help="shares of the budget, the last is 1")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no trial after so many")
    parser.add_argument("--threads", type=int, default=1, help="speeds: of one trial")
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
    commands = {"speeds": time_trials, "search": search, "families": compare_families, "table": print_table,
                "paces": curves.time_sizes, "curves": curves.draw_curves, "losses": losses.print_losses}
    commands[options.command](options)


def vocabularies(parts: Parts) -> tuple[int, ...]:
    """Half, once and twice the usual number of subwords; 0 is the tokenizer that would be chosen."""
    from regard.data.tokens.tokenizers import default_vocab, pair_vocab

    sizes = [len(Path(name).read_text("utf-8")) for name in parts.files("train")]
    usual = default_vocab(sizes[0]) if parts.kind == "text" else pair_vocab(max(sizes))
    return (max(256, usual // 2), 0, 0, 2 * usual)


# ------------------------------------------------------------------------------------------------ speeds


def time_trials(options: argparse.Namespace) -> None:
    """Time each trial on this machine. With one thread the time is the process's own, whatever else is running."""
    path, clock = options.results / "speeds.jsonl", time.process_time if options.threads == 1 else time.monotonic
    done = {(row["corpus"], row["trial"]) for row in read_rows(path)}
    for parts in make_corpora(options.folder, options.corpus):
        trials = [draw_trial(parts.kind, number, vocabularies(parts)) for number in range(options.trials)]
        for number, trial in enumerate(grid_trials(parts.kind, vocabularies(parts)) if options.grid else trials):
            if (parts.name, key(trial)) in done:
                continue
            timed = time_trial(parts, trial, options.threads, clock)
            append(path, {"corpus": parts.name, "trial": key(trial), "number": number, **timed, "cpu": cpu(),
                          "threads": options.threads, "settings": trial})
            print(parts.name, number, trial["family"], timed, flush=True)


# ------------------------------------------------------------------------------------------------ search


class Bracket:
    """A search on one corpus and for one budget: trials at a rung, of which the best third goes on."""

    def __init__(
        self, parts: Parts, minutes: float, speeds: dict[tuple[str, str], dict[str, Any]], rows: list[Any],
        rungs: Sequence[float],
    ):
        self.parts, self.minutes, self.speeds, self.rungs = parts, minutes, speeds, rungs
        self.rung = 0
        self.trials = [row["settings"] for (corpus, _), row in speeds.items() if corpus == parts.name]
        self.found = {(row["trial"], row["share"]): row for row in rows
                      if row["corpus"] == parts.name and row["minutes"] == minutes}

    def jobs(self) -> list[dict[str, Any]]:
        """Return what is to be run at this rung; where all is there, go on to the next."""
        while self.rung < len(self.rungs):
            missing = [trial for trial in self.trials if (key(trial), self.share) not in self.found]
            if missing:
                return [self.job(trial) for trial in missing]
            self.trials.sort(key=lambda trial: judge(self.found[key(trial), self.share]))
            self.trials = self.trials[: max(1, len(self.trials) // 3)]
            self.rung += 1
        return []

    @property
    def share(self) -> float:
        """The share of the budget at this rung."""
        return round(self.rungs[self.rung], 4)

    def job(self, trial: dict[str, Any]) -> dict[str, Any]:
        speed = self.speeds[self.parts.name, key(trial)]["tokens_a_second"]
        tokens = int(speed * 60 * self.minutes * IN_STEPS * self.share)
        return {"corpus": self.parts.name, "minutes": self.minutes, "share": self.share, "trial": key(trial),
                "tokens": tokens, "settings": trial}


def judge(row: dict[str, Any]) -> float:
    """The number to minimise, on the part valid: bits per byte of the mixture, or minus BLEU."""
    if "error" in row:
        return float("inf")
    valid = row["valid"]
    return valid["mixture"] if "mixture" in valid else 1e-4 * valid["loss"] - valid["bleu"]


def search(options: argparse.Namespace) -> None:
    """Run the brackets side by side, each trial in one of the workers."""
    began, path = time.monotonic(), options.results / "trials.jsonl"
    speeds = {(row["corpus"], row["trial"]): row for row in read_rows(options.results / "speeds.jsonl")
              if row["number"] < options.trials}
    rows = read_rows(path)
    brackets = [Bracket(parts, minutes, speeds, rows, options.rungs) for minutes in options.minutes
                for parts in make_corpora(options.folder, options.corpus)]
    waiting: queue.PriorityQueue[Any] = queue.PriorityQueue()
    lock, count = threading.Lock(), 0

    def fill(bracket: Bracket) -> None:
        nonlocal count
        for job in bracket.jobs():
            count += 1
            waiting.put((job["minutes"], -job["share"], count, job, bracket))

    def work(number: int) -> None:
        with tempfile.TemporaryDirectory() as folder, Worker(
                f"worker{number}", sys.executable, __file__,
                ("search", "--folder", options.folder, "--device", options.device), Path(folder), 1) as worker:
            while time.monotonic() - began < options.seconds:
                try:
                    *_, job, bracket = waiting.get(timeout=2)
                except queue.Empty:
                    if all(each.rung >= len(options.rungs) for each in brackets):
                        return
                    continue
                row = worker.ask(json.dumps(job))
                with lock:
                    append(path, row)
                    bracket.found[row["trial"], row["share"]] = row
                    if all((key(trial), bracket.share) in bracket.found for trial in bracket.trials):
                        fill(bracket)
                    print(f"{time.monotonic() - began:5.0f} s {row['corpus']:15} {row['minutes']:4} min "
                          f"share {row['share']} {job['settings']['family']:13} {judge(row):9.4f}", flush=True)

    for bracket in brackets:
        fill(bracket)
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
            run = curves.RUN.get(options.command, run_drawn)
            found = run(corpora[job["corpus"]], job, options.device)
        except Exception as error:                  # a trial that diverges, or does not fit, has lost: that is said
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(job | found), file=answer, flush=True)


def run_drawn(parts: Parts, job: dict[str, Any], device: str) -> dict[str, Any]:
    return run_trial(parts, job["settings"], job["tokens"], device)


# ---------------------------------------------------------------------------------------------- families


def compare_families(options: argparse.Namespace) -> None:
    """Train each candidate of a task with its own defaults on the tokens that one core reads in the budget."""
    path = options.results / "families.jsonl"
    for minutes in options.minutes:
        for parts in make_corpora(options.folder, options.corpus):
            for family in CANDIDATES[parts.kind]:
                done = {(row["corpus"], row["minutes"], row["family"]) for row in read_rows(path)}
                if (parts.name, minutes, family) in done:
                    continue
                trial = default_trial(parts, family, minutes)
                timed = time_trial(parts, trial, 1, time.process_time)
                tokens = int(timed["tokens_a_second"] * 60 * minutes * IN_STEPS)
                found = run_trial(parts, trial, tokens, "cpu")
                append(path, {"corpus": parts.name, "minutes": minutes, "family": family, **timed, **found,
                              "settings": trial, "cpu": cpu()})
                print(parts.name, minutes, family, timed["tokens_a_second"], found, flush=True)


# ------------------------------------------------------------------------------------------------- table


def print_table(options: argparse.Namespace) -> None:
    """Print the best found on each corpus for each budget."""
    rows = [row for row in read_rows(options.results / "trials.jsonl") if row["share"] == 1]
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["corpus"], row["minutes"]), []).append(row)
    for (corpus, minutes), found in sorted(groups.items()):
        for row in sorted(found, key=judge)[:3]:
            print(f"{corpus:15} {minutes:4} min  {judge(row):9.4f}  {row.get('valid')}  {json.dumps(row['settings'])}")


if __name__ == "__main__":
    main()
