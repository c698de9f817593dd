"""Going on with a run: its settings, tokenizer and text, from its newest good checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from regard import storage
from regard.config import as_values, fill
from regard.errors import RunError, SettingError
from regard.families.sizes import Tables
from regard.run_folder import CHECKPOINTS, DAMAGED, RunFolder
from regard.tasks import Task
from regard.trained import pick_device, run_family, run_task
from regard.training.assemble import finish, make_job, new_model
from regard.training.choose import Chosen, changed_settings
from regard.training.conditions import changed_conditions, current_conditions
from regard.training.job import Job
from regard.training.loop import At
from regard.training.order import Order, refuse_params, require_family
from regard.training.settings import TrainingSettings

# What may be changed when a run is resumed; the rest would make it another run.
CHANGEABLE = ("steps", "learning_rate", "muon_rate", "clip", "valid_every", "checkpoint_every", "keep", "patience",
              "log_every", "micro_batch", "samples", "threads")


def resume(order: Order, folder: RunFolder, say: Callable[[str], None]) -> Any:
    """Go on with a run: its settings, tokenizer and text, from its newest good checkpoint."""
    folder.create()
    tables = folder.read_settings()
    task = run_task(tables)
    if task.name != order.task:
        raise RunError(f"{folder.path} is a run of the task {task.name}: go on with it by `regard train {task.name}`")
    kind = run_family(tables, folder, order.trust)
    require_family(order, kind.name, f"--resume {folder.path}")
    refuse_params(order, "--resume")
    if kind.count is not None:
        raise RunError(f"{folder.path} was counted in one go: there is nothing to resume")
    wanted = order.settings or {}
    data = resumed_data(order, tables, task)
    model_settings, _ = changed_settings(
        kind.settings_of_run(tables["model"]), wanted.get("model", {}), "model", ())
    training, changes = changed_settings(
        fill(TrainingSettings, tables["training"], "training"), wanted.get("training", {}), "training", CHANGEABLE)
    device = pick_device(order.device)
    folder.check_tokenizer()
    tokenizer = task.load_tokenizer(folder.tokenizer_path)
    corpus = task.prepare(data, tokenizer, say=say)
    if data.content and corpus.content != data.content:
        raise RunError(f"the text has changed since {folder.path} began: resume with the same text, "
                       "or start a new run with --from")
    files = newest_good(order, folder, say)
    session = read_session(files)
    if not training.threads and session.get("conditions"):
        training = replace(training, threads=session["conditions"]["threads"])
    torch.manual_seed(training.seed)
    chosen = Chosen(model_settings, training)
    model = new_model(kind, chosen, task.vocab(tokenizer), device)
    job = make_job(model, corpus, chosen, folder, order)
    at = At(micro_batch=training.micro_batch) if files is None else At(**job.restore(files))
    if training.steps < at.step:
        raise SettingError(f"--steps {training.steps}: {folder.path} is at step {at.step:,} already: give as many at "
                           "least")
    at = mend_weights(job, at, say)
    for log in (job.metrics, job.samples):
        if not log.unchanged(session.get("logs", {}).get(log.path.name, {"bytes": 0, "sha256": storage.digest(b"")})):
            say(f"{log.path.name} was changed or damaged before step {at.step:,}")
        if damaged := log.cut(at.step):
            say(f"{damaged:,} line{'s' * (damaged > 1)} of {log.path.name} could not be read, and left out")
    if changes:
        tables["training"] = as_values(training)
        folder.save_settings(tables)
    say(f"resuming {folder.path} at step {at.step:,} of {training.steps:,}: settings, tokenizer, weights, optimizer "
        "and place in the text are kept" + (f"; changed: {', '.join(changes)}" if changes else ""))
    if files is not None and (differs := changed_conditions(session.get("conditions"), current_conditions(model))):
        say(f"the last bits may differ from a run that was never stopped: {'; '.join(differs)}")
    return finish(job, at, tables, folder, say)


def newest_good(order: Order, folder: RunFolder, say: Callable[[str], None]) -> dict[str, bytes] | None:
    """The files of the newest checkpoint that is whole; newer ones are set aside. None: training had made none yet."""
    files, damaged = folder.newest_checkpoint()
    for name in damaged:
        folder.set_aside(folder.checkpoints_path / name)
        say(f"checkpoint {name} is damaged: passed over, and set aside as {CHECKPOINTS}/{DAMAGED}{name}")
    if files is None and folder.had_checkpoints() and not order.start_over:
        raise RunError(f"{folder.path} has no checkpoint that can be used: begin a new run with its best weights by "
                       f"--from {folder.path} --out FOLDER, or train it from the first step, over these weights, with "
                       "--resume --start-over")
    return files


def read_session(files: dict[str, bytes] | None) -> dict[str, Any]:
    """What a checkpoint keeps of the process that made it; nothing in one of an earlier version."""
    return json.loads(files.get("session.json", b"{}")) if files is not None else {}


def mend_weights(job: Job, at: At, say: Callable[[str], None]) -> At:
    """Damaged or lost best weights are replaced by those at hand, and count as no best any more."""
    if math.isinf(at.best):                                  # no validation yet
        return at
    try:
        job.folder.read_weights()
        return at
    except RunError as error:
        say(f"{error.args[0].split(':')[0]}: the weights of step {at.step:,} take their place until better ones come")
    job.keep_weights()
    return replace(at, best=math.inf)


def resumed_data(order: Order, tables: Tables, task: Task) -> Any:
    """How the text was read, from wherever it is now; its content is compared later."""
    wanted = order.settings or {}
    before = fill(task.data, {**tables["data"], "files": order.files}, "data")
    after, _ = changed_settings(before, wanted.get("data", {}), "data", ("files", "valid"))
    kind = wanted.get("tokenizer", {}).get("kind", "auto")
    if kind not in ("auto", tables["tokenizer"]["kind"]):
        raise SettingError(f"tokenizer.kind cannot change from {tables['tokenizer']['kind']} to {kind} when a run is "
                           "resumed: leave it out, or start a new run")
    return after
