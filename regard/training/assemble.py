"""The parts of a run put together, new or resumed alike: the model, the job, its steps, its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from regard.config import as_values
from regard.errors import SettingError
from regard.families import Family
from regard.families.sizes import Tables
from regard.look.samples import sampler
from regard.manifest import FORMAT
from regard.models.learner import Learner
from regard.run_folder import RunFolder
from regard.tasks import task_named
from regard.trained import load
from regard.training import budget
from regard.training.choose import Chosen
from regard.training.conditions import set_conditions
from regard.training.job import Job, out_of_memory
from regard.training.log import Progress, TensorBoard
from regard.training.loop import At, fit
from regard.training.order import Order
from regard.training.settings import TrainingSettings


def new_model(kind: Family, chosen: Chosen, vocab: Any, device: torch.device, base: Any = None) -> Learner:
    assert kind.build is not None
    try:
        model = kind.build(chosen.model, vocab)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise SettingError("a model of this size does not fit into memory: use a smaller --width, --layers, --hidden "
                           "or --vocab") from None
    model.head.smoothing = chosen.training.label_smoothing
    if base is not None:
        model.load_tensors(base.learner.saved_tensors())
    return model.to(device)


def make_job(model: Learner, corpus: Any, chosen: Chosen, folder: RunFolder, order: Order) -> Job:
    s, task = chosen.training, task_named(order.task)
    set_conditions(s, model)
    batches = task.batches(corpus, s, chosen.model.context)
    held_out = replace(task.held_out(corpus, s, chosen.model.context), every=max(1, s.valid_one_in))
    judge = None if task.judge is None else partial(task.judge, model, corpus, chosen.model.context)
    sample = sampler(task.name, model, corpus, chosen.model.context) if s.samples else None
    extra = (TensorBoard(folder.path / "tensorboard"),) if order.tensorboard else ()
    return Job(model, batches, held_out, s, folder, Progress(s.steps, order.quiet), extra, judge, sample)


def with_steps(job: Job, corpus: Any, began: float) -> TrainingSettings:
    """The number of steps, from whichever budget was given, and all that follows from it."""
    s, tokens = job.settings, budget.step_tokens(job)
    steps = s.steps
    if not steps and s.tokens:
        steps = budget.steps_for_tokens(s.tokens, tokens)
    if not steps:
        left = max(0.3 * s.minutes * 60, s.minutes * 60 - (time.monotonic() - began))
        steps = budget.steps_for_minutes(job, left)
        if s.epochs:
            steps = min(steps, budget.steps_for_tokens(int(s.epochs * len(corpus.train.tokens)), tokens))
    s = budget.fixed(job.settings, steps, tokens, len(corpus.valid.tokens))
    if job.model.device.type == "cpu" and not s.threads:
        s = replace(s, threads=torch.get_num_threads())      # another number would round otherwise
    return s


def finish(job: Job, at: At, tables: Tables, folder: RunFolder, say: Callable[[str], None]) -> Any:
    job.progress.steps = job.settings.steps
    try:
        at = fit(job, at)
    finally:
        job.progress.close()
        for log in job.logs[1:]:
            log.close()
    say(f"done: {at.tokens:,} tokens in {at.seconds:.0f} s ({at.tokens / max(at.seconds, 1e-9):,.0f} tokens/s) · "
        f"best validation {f'loss {at.best:.4f}' if job.judge is None else f'score {max(0.0, -at.best):.2f}'} · "
        f"{folder.path}")
    return load(folder.path, device=str(job.model.device), trust=True)          # its code runs already


def all_tables(
    order: Order, kind: Family, corpus: Any, data: Any, chosen: Chosen
) -> dict[str, dict[str, Any]]:
    """Every setting of the run, resolved: what run.toml holds."""
    run = {"format": FORMAT, "task": order.task, "family": kind.name, "from": order.base}
    return {"run": run, "data": as_values(corpus.resolved(data)), "tokenizer": as_values(corpus.tokenizer_settings),
            "model": as_values(chosen.model), "training": as_values(chosen.training)}
