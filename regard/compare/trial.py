"""One trial: train one model under the common budget, measure it, and store its record.

Run by itself, as `python -m regard.compare.trial FOLDER NAME`, so that its peak of memory is its own and nothing that
goes wrong in it ends the others. What went wrong is part of the result.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from regard import storage
from regard.compare import measure
from regard.compare.plan import ComparisonPlan, Trial
from regard.compare.subject import subject_of
from regard.compare.units import save_units
from regard.contract import LanguageModel
from regard.errors import Interrupted, RegardError, RunError
from regard.manifest import write_sealed
from regard.run_folder import RunFolder
from regard.tasks import CARDS, task_named
from regard.training.run import TrainRequest, run_training


def trial_file(folder: Path, trial: Trial) -> Path:
    return folder / "trials" / f"{trial.name}.json"


def run_trial(folder: Path, plan: ComparisonPlan, trial: Trial) -> dict[str, Any]:
    """Train, measure and write the record; a failure is recorded with its reason, an interruption is not recorded."""
    began = time.monotonic()
    record: dict[str, Any] = {"name": trial.name, **asdict(trial)}
    try:
        measured = train_and_measure(folder, plan, trial)
        save_units(trial_file(folder, trial).with_suffix(".npz"), measured["units"].pop("counts"))
        record |= {"status": "done", **measured}
    except (Interrupted, KeyboardInterrupt):
        raise
    except RegardError as error:
        record |= {"status": "failed", "reason": str(error)}
    except Exception as error:
        traceback.print_exc()                                # into the trial's log, which the reason points to
        reason = (str(error).strip().splitlines() or [""])[0]
        record |= {"status": "failed", "reason": f"{type(error).__name__}: {reason} (see trials/{trial.name}.log)"}
    record["wall"] = round(time.monotonic() - began, 2)
    write_sealed(trial_file(folder, trial), record)
    return record


def train_and_measure(folder: Path, plan: ComparisonPlan, trial: Trial) -> dict[str, Any]:
    peak = measure.ResidentPeak()
    run = RunFolder(folder / "runs" / trial.name)
    trained_before = trial.order is None and already_trained(run)
    trained = train_or_resume(plan.request(trial, run.path), run, anew=trial.order is not None)
    model = trained.model
    memory = None if trained_before else peak_memory(model, peak)
    subject, corpus = subject_of(plan.task), same_corpus(plan, trained)
    rows = measure.read_metrics(run.metrics_path)
    return {
        **subject.held_out(trained, corpus), **sizes(trained), "memory": memory,
        "trained": last_of(rows), "training_rate": measure.training_rate(rows),
        "curve": measure.curve(rows, CARDS[plan.task].judged),
        "settings": {table: trained.tables[table] for table in ("model", "training")},
        "machine": measure.machine(model.device),
        **subject.measure(trained, corpus, not measured_before(folder, plan, trial)),
    }


def train_or_resume(request: TrainRequest, run: RunFolder, *, anew: bool = False) -> Any:
    """Train a new run, or the rest of one that was interrupted; `anew` is for what is counted, in one go."""
    if run.settings_path.exists() and not anew:
        request = replace(request, settings=None, params=None, mix=None, resume=True)
    elif run.path.exists():
        storage.remove(run.path)
    return run_training(request)


def already_trained(run: RunFolder) -> bool:
    """True where only the measuring is left to do: the memory that training took is not known then."""
    rows = measure.read_metrics(run.metrics_path) if run.settings_path.exists() else []
    return bool(rows) and rows[-1]["step"] >= run.read_settings()["training"]["steps"]


def same_corpus(plan: ComparisonPlan, trained: Any) -> Any:
    """The text as the plan read it; one that changed since the comparison began would make the table a lie."""
    task = task_named(plan.task)
    data = task.data_settings(plan.files, plan.settings.get("data", {}))
    corpus = task.prepare(data, trained.tokenizer, say=lambda text: None)
    if (corpus.content, trained.tokenizer.digest()) != (plan.text["content"], plan.text["digest"]):
        raise RunError("the text has changed since the comparison began: start another one with --out")
    return corpus


def sizes(trained: Any) -> dict[str, Any]:
    model: Any = trained.model
    kept = model.saved_tensors().values()
    return {"parameters": trained.parameters, "bytes": sum(t.numel() * t.element_size() for t in kept),
            "context": model.context}


def peak_memory(model: LanguageModel, peak: measure.ResidentPeak) -> dict[str, Any] | None:
    """On a GPU what torch held there; else what the process grew by, beyond Python and its libraries."""
    if model.device.type == "cuda":
        return {"bytes": torch.cuda.max_memory_allocated(model.device), "where": "GPU"}
    grown = peak.grown()
    return None if grown is None else {"bytes": grown, "where": "resident"}


def last_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: rows[-1][name] for name in ("step", "tokens", "seconds")} if rows else {}


def measured_before(folder: Path, plan: ComparisonPlan, trial: Trial) -> bool:
    """True where another seed of this family was measured in full: what no seed changes is measured once."""
    files = [trial_file(folder, replace(trial, seed=seed)) for seed in range(plan.seeds)]
    return trial.order is None and any("cost" in json.loads(file.read_text("utf-8")) for file in files if file.exists())


def stop_with_parent() -> None:
    """When the comparison that started this trial is gone, its end of our stdin closes: save and stop, too."""

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main(folder: str, name: str) -> int:
    stop_with_parent()
    plan = ComparisonPlan.load(Path(folder))
    trial = next(trial for trial in plan.trials() if trial.name == name)
    try:
        run_trial(Path(folder), plan, trial)
    except Interrupted as stopped:
        return stopped.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
