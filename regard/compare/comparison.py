"""A whole comparison: each trial by itself, stored as it ends; then the table and the report. Trials run one after
another; on several GPUs those in which no time is measured run side by side.

    FOLDER/
      compare.json          the plan
      runs/NAME/            a run folder for each trial, as `regard train` makes them
      trials/NAME.json      what was measured of it; NAME.npz the counts of each sentence; NAME.log what it said
      results.json          everything, with one row a family
      table.md, report.html
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from regard import storage
from regard.compare.differences import FamilyDifference
from regard.compare.plan import FILE, HALVE, ComparisonPlan, Record, Row, Trial, Wanted, make_plan
from regard.compare.report_page import make_report
from regard.compare.results_table import as_markdown, notes
from regard.compare.rows import judge_rows, load_all_units, summarise
from regard.compare.subject import measured_part, subject_of, why_not_divided
from regard.compare.trial import measured_before, trial_file
from regard.errors import Interrupted, TrainingStopped
from regard.manifest import read_record_of, write_sealed
from regard.run_folder import refuse_links
from regard.run_lock import use_folder
from regard.trained import VISIBLE, list_gpus
from regard.training.report import format_seconds
from regard.training.stopping import stop_signals

Say = Callable[[str], None]
Start = Callable[[Path, ComparisonPlan, Trial, Callable[[], bool]], None]
POLL = 0.1                       # seconds between looks at a running trial


@dataclass(frozen=True)
class Comparison:
    """A comparison, done or as far as it is."""

    folder: Path
    plan: ComparisonPlan
    records: list[Record]
    rows: list[Row]
    differences: list[FamilyDifference] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as plain values without infinities."""
        ended = {r["name"] for r in self.records}
        waiting = [trial.name for trial in self.plan.trials() if trial.name not in ended]
        plan = self.plan
        return storage.finite({"task": plan.task, "command": plan.command(str(self.folder)), "budget": plan.budget,
                       "params": plan.params, "seeds": plan.seeds, "text": plan.text, "waiting": waiting,
                       "table": self.rows, "differences": [each.as_dict() for each in self.differences],
                       "notes": notes(self.rows, plan), "trials": self.records})


def compare(wanted: Wanted, say: Say = print, start: Start | None = None) -> Comparison:
    """Make the comparison that is wanted, or go on with it; `start` runs one trial, else in a process of its own."""
    folder = wanted.folder
    with use_folder(folder, storage.claim_folder(folder), folder / FILE):
        return run_trials(make_or_join_plan(wanted, folder, say), folder, say, start)


def run_trials(plan: ComparisonPlan, folder: Path, say: Say, start: Start | None) -> Comparison:
    refuse_links("a comparison", folder, folder / "runs", folder / "trials")
    storage.make_folder(folder / "trials")
    plan.save(folder)
    trials = plan.trials()
    ended = read_records(folder, trials)
    waiting = [trial for trial in trials if trial not in ended or ended[trial]["status"] != "done"]
    if len(waiting) < len(trials):
        say(f"{len(trials) - len(waiting)} of {len(trials)} trials in {folder} are done and kept")
    progress, gpus = TrialProgress(plan, folder, len(trials), waiting, say), list_gpus(plan.device)
    with stop_signals() as stop:
        beside = []
        for trial in waiting:
            if len(gpus) > 1 and not runs_alone(folder, plan, trial):
                beside.append(trial)
                continue
            began = time.monotonic()
            (start or in_a_process)(folder, plan, trial, stop)
            progress.add(trial, time.monotonic() - began, stop)
        if len(gpus) > 1 and "minutes" in plan.budget:
            say(f"trials of so many minutes measure time, and ran alone: --steps or --tokens uses all {len(gpus)} GPUs")
        for trial, seconds in on_each_gpu(folder, plan, beside, stop, gpus, start):
            progress.add(trial, seconds, stop)
    compared = finish(folder, plan)
    if not any(record["status"] == "done" for record in compared.records):
        raise TrainingStopped(f"every trial failed: {compared.records[0]['reason']}")
    return compared


def runs_alone(folder: Path, plan: ComparisonPlan, trial: Trial) -> bool:
    """True for a trial in which times are measured: its budget, or the costs of a family that nobody measured yet."""
    return trial.order is not None or "minutes" in plan.budget or not measured_before(folder, plan, trial)


def on_each_gpu(
    folder: Path, plan: ComparisonPlan, trials: Sequence[Trial], stop: Callable[[], bool], gpus: Sequence[str],
    start: Start | None,
) -> Iterator[tuple[Trial, float]]:
    """Run trials side by side, one a GPU; yield each that has ended, and its seconds."""
    free: SimpleQueue[str] = SimpleQueue()
    for gpu in gpus:
        free.put(gpu)

    def run(trial: Trial) -> tuple[Trial, float]:
        gpu, began = free.get(), time.monotonic()
        try:
            if not stop():
                (start or partial(in_a_process, environment={VISIBLE: gpu}))(folder, plan, trial, stop)
        finally:
            free.put(gpu)
        return trial, (time.monotonic() - began) / len(gpus)

    with ThreadPoolExecutor(max(1, len(gpus))) as threads:
        for future in as_completed([threads.submit(run, trial) for trial in trials]):
            yield future.result()


class TrialProgress:
    """Says how each trial ended and how long the others take; raises Interrupted where one was stopped."""

    def __init__(self, plan: ComparisonPlan, folder: Path, every: int, waiting: Sequence[Trial], say: Say):
        self.plan, self.folder, self.every, self.waiting, self.say = plan, folder, every, list(waiting), say
        self.spent: list[float] = []

    def add(self, trial: Trial, seconds: float, stop: Callable[[], bool]) -> None:
        if stop() and not trial_file(self.folder, trial).exists():
            finish(self.folder, self.plan)
            raise Interrupted(f"stopped during {trial.label}; {self.every - len(self.waiting)} of {self.every} trials "
                              "are done and kept: go on with the same command")
        self.waiting.remove(trial)
        if trial.order is None:
            self.spent.append(seconds)
        left = time_left(self.plan, self.waiting, self.spent)
        outcome = tell_outcome(self.plan, trial, read_records(self.folder, [trial])[trial])
        self.say(f"{self.every - len(self.waiting)}/{self.every}  {outcome}"
                 + ("" if left is None else f" · {format_seconds(left)} left"))


def make_or_join_plan(wanted: Wanted, folder: Path, say: Say = print) -> ComparisonPlan:
    """The plan, with what its folder already holds. A comparison that was begun before held-out data were divided goes
    on with them whole."""
    before = ComparisonPlan.load(folder) if (folder / FILE).exists() else None
    if before is not None and HALVE not in before.settings.get("data", {}):
        wanted = replace(wanted, halve=False)
    plan = make_plan(wanted, say)
    return plan if before is None else before.joined(plan, folder)


def in_a_process(
    folder: Path, plan: ComparisonPlan, trial: Trial, stop: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a trial in a process of its own. It gets a session of its own, so that Ctrl-C reaches it once, through us.
    `environment` names its GPU, where others run beside it."""
    storage.remove(trial_file(folder, trial))                # of a failure before, which is tried again
    log = folder / "trials" / f"{trial.name}.log"
    command = [sys.executable, "-m", "regard.compare.trial", str(folder), trial.name]
    with open(log, "wb") as file:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file, start_new_session=True,
                                 env={**os.environ, **(environment or {})})
    try:
        wait(child, trial, stop, shown=environment is None)
    except KeyboardInterrupt:
        child.kill()
        child.wait()
        raise
    if child.returncode and not stop() and not trial_file(folder, trial).exists():
        note_crash(folder, trial, child.returncode, log)
    elif not child.returncode and not log.stat().st_size:
        storage.remove(log)


def wait(child: subprocess.Popen[bytes], trial: Trial, stop: Callable[[], bool], shown: bool) -> None:
    """Wait until it ends. When asked to stop, ask it to. Where it is `shown`, its seconds run in the terminal."""
    asked, began, last, shown = False, time.monotonic(), -1, shown and sys.stderr.isatty()
    while True:
        try:
            child.wait(POLL)
            break
        except subprocess.TimeoutExpired:
            pass
        if stop() and not asked:
            child.terminate()
            asked = True
        if shown and int(time.monotonic() - began) > last:
            last = int(time.monotonic() - began)
            print(f"\r{trial.label} … {format_seconds(last)} \033[K", end="", file=sys.stderr, flush=True)
    if shown:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def note_crash(folder: Path, trial: Trial, code: int, log: Path) -> None:
    """Record that a process died without a record of its own."""
    lines = log.read_text("utf-8", errors="replace").strip().splitlines()
    why = f"its process was killed by signal {-code}" + (" (memory may have run out)" if code == -9 else "") \
        if code < 0 else f"its process ended with code {code}" + (f": {lines[-1]}" if lines else "")
    write_sealed(trial_file(folder, trial), {
        "name": trial.name, **asdict(trial), "status": "failed", "reason": why, "wall": 0.0})


def read_records(folder: Path, trials: Sequence[Trial]) -> dict[Trial, Record]:
    """The records of the trials that have ended."""
    files = {trial: trial_file(folder, trial) for trial in trials}
    return {trial: read_record_of(file, "trial") for trial, file in files.items() if file.exists()}


def time_left(plan: ComparisonPlan, waiting: Sequence[Trial], spent: Sequence[float]) -> float | None:
    """Seconds that are left, by the trials so far or else by the budget; None before anything is known."""
    trained = [trial for trial in waiting if trial.order is None]
    if spent:
        return len(trained) * sum(spent) / len(spent)
    return len(trained) * (plan.budget["minutes"] * 60 + 15) if "minutes" in plan.budget else None


def tell_outcome(plan: ComparisonPlan, trial: Trial, record: Record) -> str:
    if record["status"] == "failed":
        return f"{trial.label} failed: {record['reason']}"
    trained = record["trained"]
    speed = record["training_rate"]
    return (f"{trial.label}: {subject_of(plan.task).show_record(record)} · {trained['tokens']:,} tokens in "
            f"{trained['seconds']:.0f} s" + ("" if speed is None else f" ({speed:,.0f} tokens/s)"))


def finish(folder: Path, plan: ComparisonPlan) -> Comparison:
    """Gather what there is and write results, table and report."""
    records = list(read_records(folder, plan.trials()).values())
    rows = summarise(plan, records)
    found = judge_rows(plan, rows, records, load_all_units(folder, records))
    compared = Comparison(folder, plan, records, rows, found)
    results = compared.as_dict()
    storage.write_json(folder / "results.json", results)
    storage.write_file(folder / "table.md", as_markdown(rows, plan))
    storage.write_file(folder / "report.html", make_report(plan, rows, records, found, results["command"]))
    return compared


def report(folder: str | Path) -> Comparison:
    """The table and the report again, from what is kept; nothing is trained."""
    return finish(Path(folder), ComparisonPlan.load(Path(folder)))


def dry_run(plan: ComparisonPlan, folder: Path) -> str:
    """The plan in a few lines."""
    text, trials = plan.text, plan.trials()
    lines = [f"text       {text['train']['tokens']:,} tokens to learn from, {text['valid']['tokens']:,} held out "
             f"({text['valid']['bytes']:,} bytes) · {text['tokenizer']}, {text['vocab']:,} tokens known",
             f"parts      chosen on {subject_of(plan.task).choosing_part(plan)}, measured on {measured_part(plan)}"
             if text.get("measured_on") else
             f"parts      chosen and measured on the same held-out part{why_not_divided(plan)}"]
    for entry in plan.entries:
        size = f"{entry.parameters:>12,} parameters" if entry.parameters is not None else \
            f"orders {', '.join(map(str, plan.orders))}: counted"
        sizes = ", ".join(f"{name} {value}" for name, value in entry.model.items()) if not entry.counted else ""
        lines.append(f"{entry.family:<10} {size}" + (f" · {sizes}" if sizes else ""))
    seconds = plan.seconds()
    lines.append(f"budget     {plan.show_budget()} a trial, {len(trials)} trials" + (
        f", about {format_seconds(seconds)} in all" if seconds is not None else ""))
    lines.append(f"folder     {folder}")
    return "\n".join(lines)
