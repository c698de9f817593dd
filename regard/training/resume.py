"""Going on with a run: its settings, tokenizer and text, from its newest good checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard.config import as_values, fill
from regard.errors import RunError, SettingError
from regard.run_folder import RunFolder
from regard.sizes import Tables
from regard.tasks import Task
from regard.trained import pick_device, run_family, run_task
from regard.training.assemble import finish, make_job, new_model
from regard.training.choose import Chosen, changed_settings
from regard.training.loop import At
from regard.training.order import Order, refuse_params, require_family
from regard.training.settings import TrainingSettings

# What may be changed when a run is resumed; the rest would make it another run.
CHANGEABLE = ("steps", "learning_rate", "muon_rate", "clip", "valid_every", "checkpoint_every", "keep", "patience",
              "log_every", "micro_batch", "samples")


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
    tokenizer = task.load_tokenizer(folder.tokenizer_path)
    corpus = task.prepare(data, tokenizer, say=say)
    if data.content and corpus.content != data.content:
        raise RunError(f"the text has changed since {folder.path} began: resume with the same text, "
                       "or start a new run with --from")
    torch.manual_seed(training.seed)
    chosen = Chosen(model_settings, training)
    model = new_model(kind, chosen, task.vocab(tokenizer), device)
    job = make_job(model, corpus, chosen, folder, order)
    files, damaged = folder.newest_checkpoint()
    at = At(micro_batch=training.micro_batch) if files is None else At(**job.restore(files))
    for name in damaged:
        say(f"checkpoint {name} is damaged: passed over")
    job.metrics.cut(at.step)
    job.samples.cut(at.step)
    if changes:
        tables["training"] = as_values(training)
        folder.save_settings(tables)
    say(f"resuming {folder.path} at step {at.step:,} of {training.steps:,}: settings, tokenizer, weights, optimizer "
        "and place in the text are kept" + (f"; changed: {', '.join(changes)}" if changes else ""))
    return finish(job, at, tables, folder, say)


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
