"""One run of a ladder: trained on a full schedule of its own, measured on held-out data, recorded.

What is measured is what `regard compare` measures of the task (compare/subject.py): the loss, and BLEU of a translator.
The weights are thrown away once they are measured; the record has all that makes them again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import storage
from regard.compare.subject import Subject, subject_of
from regard.compare.trial import train_or_resume
from regard.config import fill
from regard.manifest import read_record_of, write_sealed
from regard.run_folder import RunFolder
from regard.scale.ladder import PROBED, Rung, Say, ScalePlan
from regard.tasks import task_named

Record = dict[str, Any]


def quantities(subject: Subject) -> tuple[str, ...]:
    """The loss, and the task's own metric where more of it is better: each is fitted."""
    return ("loss", subject.metric) if subject.higher else ("loss",)


def prepare_corpus(request: Mapping[str, Any], say: Say = lambda text: None) -> Any:
    """The corpus of a request, with all of its data."""
    task = task_named(request["task"])
    data = task.data_settings(request["files"], request["settings"].get("data", {}))
    return task.prepare(data, fill(task.tokenizer, request["settings"].get("tokenizer", {}), "tokenizer"), say=say)


def record_file(folder: Path, rung: Rung) -> Path:
    return folder / "runs" / f"{rung.name}.json"


def read_record(folder: Path, rung: Rung) -> Record | None:
    """The record of a run; None where it has not ended yet."""
    path = record_file(folder, rung)
    return read_record_of(path, "run") if path.exists() else None


def run_rung(folder: Path, plan: ScalePlan, rung: Rung, corpus: Any) -> Record:
    """Train one run, or go on with it; measure it, record it, and remove its weights."""
    began, run = time.monotonic(), RunFolder(folder / "runs" / rung.name)
    trained = train_or_resume(plan.train_request(rung, run.path), run)
    subject = subject_of(plan.request["task"])
    measured = subject.held_out(trained, corpus)
    steps = trained.tables["training"]["steps"]
    record = {"name": rung.name, "steps": steps, "parameters": rung.parameters, "share": rung.share,
              "seed": rung.seed, **{name: float(measured[name]) for name in (*quantities(subject), subject.metric)},
              "seconds": round(time.monotonic() - began, 2)}
    write_sealed(record_file(folder, rung), record)
    storage.remove(run.path)
    return record


def time_overhead(plan: ScalePlan, corpus: Any) -> float:
    """Return the seconds of a run that are not steps: its start, its validations, and what is measured at its end."""
    rung = Rung(PROBED, plan.parameters, 1.0, 0)
    with tempfile.TemporaryDirectory() as folder:
        seconds = run_rung(Path(folder), plan, rung, corpus)["seconds"]
    return max(0.0, seconds - rung.steps * plan.step_seconds[str(plan.parameters)])
