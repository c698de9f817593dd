"""From text to a trained model in a folder: what `regard train` does, in one call.

    model = regard.train("notes.txt", minutes=2)
    model = regard.train("notes.txt", family="rnn", out="runs/small", settings={"model": {"hidden": 512}})
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from regard.contract import Learner
from regard.errors import RunError, SettingError
from regard.models.missing_tokens import leave_out
from regard.run_folder import RunFolder
from regard.run_lock import use_folder
from regard.trained import load
from regard.training.checkpoint import (
    Checkpoints,
    changed_conditions,
    current_conditions,
    kept_conditions,
    newest_good,
    read_session,
    set_conditions,
)
from regard.training.choices import check_tables, settle_steps
from regard.training.counted import count_alone, count_beside
from regard.training.loop import TrainingJob, fit
from regard.training.minutes import make_pace
from regard.training.report import (
    TrainingProgress,
    TrainingReport,
    describe_kernels,
    describe_machine,
    describe_model,
    describe_pairs,
    describe_text,
    describe_training,
)
from regard.training.request import TrainingPlan, TrainRequest, as_like, claim_folder, plan_new, plan_resumed
from regard.training.step import TrainingPosition, TrainingStep, make_forward_backward, out_of_memory, tokens_a_step
from regard.training.tested_part import count_tested, measure_test


def train(
    files: str | Sequence[str], *, minutes: float | None = None, steps: int | None = None, **options: Any
) -> Any:
    """Train a model on text files (or an embedded corpus) and return it, ready to use: a language model, a Trained,
    unless another `task` is given."""
    tables = {table: dict(values) for table, values in dict(options.pop("settings", None) or {}).items()}
    for name, value in (("minutes", minutes), ("steps", steps)):
        if value is not None:
            tables.setdefault("training", {})[name] = value
    names = (files,) if isinstance(files, str) else tuple(str(name) for name in files)
    return run_training(TrainRequest(names, settings=tables, **options))


def run_training(request: TrainRequest, began: float | None = None) -> Any:
    """Start the run that was asked for, or go on with it; return the trained model. Minutes count from `began`."""
    began = time.monotonic() if began is None else began
    check_tables(request.settings or {})
    request = as_like(request)
    progress = TrainingProgress(request.quiet)
    path, new = claim_folder(request)
    folder = RunFolder(path)
    refuse_taken(request, folder)
    with kept_conditions(), use_folder(path, new, folder.settings_path):
        refuse_taken(request, folder)                        # it may have become one while we asked for the lock
        if folder.settings_path.exists():
            return resume(request, folder, progress)
        if request.resume:
            progress.say(f"nothing to resume at {path}: starting anew")
        return start(request, folder, progress, began)


def refuse_taken(request: TrainRequest, folder: RunFolder) -> None:
    if folder.settings_path.exists() and not request.resume:
        raise RunError(f"{folder.path} already holds a run: go on with --resume, or choose another folder with --out")
    if remains := folder.remains():
        raise RunError(f"{folder.path} holds {', '.join(remains)} of a run, but its run.toml is lost: put that back "
                       "from a copy, or choose another folder with --out")


def start(request: TrainRequest, folder: RunFolder, progress: TrainingProgress, began: float) -> Any:
    """Plan a new run, settle the number of its steps, and train; a family that is counted needs no steps."""
    say = progress.say
    plan = plan_new(request, say)
    if plan.family.count is not None:
        return count_alone(plan, folder, progress, began)
    torch.manual_seed(plan.training.seed)
    model = build_model(plan)
    folder.begin()
    folder.save_tokenizer(plan.corpus.tokenizer)
    parts = Parts(plan, model, folder, progress)
    describe_text(plan.corpus, say)
    describe_pairs(plan.corpus, parts.batches, parts.held_out, plan.model.context, say)
    describe_model(plan.family.name, plan.model, model, say)
    if plan.why:
        say(f"           {plan.why}")
    usual = request.family is None and plan.base is None and plan.family.name == plan.task.usual
    if usual and plan.task.card.runner_up and plan.device.type == "cpu":
        say(f"           the usual family; next came {plan.task.card.runner_up} (--family)")
    if plan.ngram is not None:
        count_beside(plan, folder, say)
    per_step = tokens_a_step(parts.batches)
    plan = replace(plan, training=settle_steps(
        plan.training, plan.corpus, plan.device, parts.make_step, per_step, began, plan.task.judge is not None))
    job = parts.make_job(plan)
    describe_training(plan.training, per_step, len(plan.corpus.train.tokens), say)
    describe_kernels(job.step, plan.training, say)
    describe_machine(job.step, folder, say)
    position = TrainingPosition(micro_batch=plan.training.micro_batch)
    if plan.base is not None:
        job.checkpoints.save(position)              # the weights begun with belong to the run, which may be moved
    folder.save_settings(plan.tables())
    return finish(plan, job, position, folder)


def resume(request: TrainRequest, folder: RunFolder, progress: TrainingProgress) -> Any:
    """Go on with a run from its newest good checkpoint."""
    folder.create()
    say = progress.say
    plan = plan_resumed(request, folder, say)
    files = newest_good(folder, request.start_over, say)
    session = read_session(files)
    if not plan.training.threads and session.get("conditions"):
        plan = replace(plan, training=replace(plan.training, threads=session["conditions"]["threads"]))
    torch.manual_seed(plan.training.seed)
    model = build_model(plan)
    job = Parts(plan, model, folder, progress).make_job(plan)
    steps = plan.training.steps
    position = TrainingPosition(micro_batch=plan.training.micro_batch)
    if files is not None:
        position = job.checkpoints.restore(files)
    if steps < position.step:
        raise SettingError(f"--steps {steps}: {folder.path} is at step {position.step:,} already: give as many at "
                           "least")
    position = job.checkpoints.mend_weights(position)
    job.checkpoints.check_logs(session, position)
    if plan.changes:
        folder.save_settings(plan.tables())
    say(f"resuming {folder.path} at step {position.step:,} of {steps:,}: settings, tokenizer, weights, optimizer "
        "and place in the text are kept" + (f"; changed: {', '.join(plan.changes)}" if plan.changes else ""))
    if files is not None and (differs := changed_conditions(session.get("conditions"), current_conditions(model))):
        say(f"the last bits may differ from a run that was never stopped: {'; '.join(differs)}")
    return finish(plan, job, position, folder)


def build_model(plan: TrainingPlan) -> Learner:
    """Build the model, with the base's weights where there is one, on the plan's device."""
    assert plan.family.build is not None
    try:
        model = plan.family.build(plan.model, plan.task.vocab(plan.corpus.tokenizer))
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise SettingError("a model of this size does not fit into memory: use a smaller --width, --layers, --hidden "
                           "or --vocab") from None
    model.head.smoothing = plan.training.label_smoothing
    if plan.base is not None:
        begin = model.load_tensors if plan.base.task.name == plan.task.name else model.load_encoder
        begin(plan.base.learner.saved_tensors())
    return leave_out(model, plan.corpus.tokenizer).to(plan.device)


class Parts:
    """The parts of a job that do not depend on the number of steps: with these, steps can be timed."""

    def __init__(self, plan: TrainingPlan, model: Learner, folder: RunFolder, progress: TrainingProgress):
        s, task, context = plan.training, plan.task, plan.model.context
        set_conditions(s, model)
        self.model, self.folder = model, folder
        self.batches = task.batches(plan.corpus, s, context)
        self.held_out = task.held_out(plan.corpus, s, context)
        self.report = TrainingReport(folder, progress, plan.request.tensorboard)
        forward_backward = make_forward_backward(model, s, progress.say)         # compiled or recorded once
        self.make_step = partial(TrainingStep, model, self.batches, forward_backward=forward_backward,
                                 say=progress.say, context=context)

    def make_job(self, plan: TrainingPlan) -> TrainingJob:
        s, task, context = plan.training, plan.task, plan.model.context
        step = self.make_step(s)
        return TrainingJob(
            s, step, replace(self.held_out, every=max(1, s.valid_one_in)), self.report,
            Checkpoints(self.folder, step, self.report, s.keep),
            judge=None if task.judge is None else partial(task.judge, self.model, plan.corpus, context),
            write_sample=task.sampler(self.model, plan.corpus, context) if s.samples else None,
            pace=make_pace(s, tokens_a_step(self.batches), len(plan.corpus.train.tokens),
                           len(plan.corpus.valid.tokens), plan.fitted, count_tested(plan)),
            save_plan=lambda changed: self.folder.save_settings(replace(plan, training=changed).tables()))


def finish(plan: TrainingPlan, job: TrainingJob, position: TrainingPosition, folder: RunFolder) -> Any:
    """Train to the end, fit the mixture and measure on the test part, if there are such; return the best weights,
    loaded from the folder."""
    job.report.progress.begin(job.settings.steps)
    try:
        position = fit(job, position)
    finally:
        job.report.close()
    best = f"loss {position.best:.4f}" if job.judge is None else f"score {max(0.0, -position.best):.2f}"
    job.report.say(f"done: {position.tokens:,} tokens in {position.seconds:.0f} s "
                   f"({position.tokens / max(position.seconds, 1e-9):,.0f} tokens/s) · best validation {best} · "
                   f"{folder.path}")
    trained = load(folder.path, device=str(job.step.model.device), trust=True, alone=True)   # its code runs already
    if plan.ngram is not None:
        assert plan.task.mixing is not None
        losses = plan.task.mixing.fit(trained, plan.corpus, folder)
        job.report.say("mixture    held-out loss " + " · ".join(f"{name} {loss:.4f}" for name, loss in losses.items()))
    measure_test(plan, trained, folder, job.report.say)
    return trained
