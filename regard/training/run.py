"""From text to a trained model in a folder: what `regard train` does, in one call.

    model = regard.train("notes.txt", minutes=2)
    model = regard.train("notes.txt", family="rnn", out="runs/small", settings={"model": {"hidden": 512}})
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from regard.errors import SettingError
from regard.ranks import ALONE, Ranks
from regard.run_folder import RunFolder
from regard.run_lock import use_folder
from regard.trained import load
from regard.training.checkpoint import (
    changed_conditions,
    check_saved,
    current_conditions,
    kept_conditions,
    newest_good,
    read_session,
)
from regard.training.choices import check_tables, settle_steps, stamp_lead
from regard.training.counted import count_alone, count_beside
from regard.training.deterministic import refuse_minutes, refusing_in_one_line
from regard.training.frames import kept_frames, take_frames
from regard.training.joining import gone_on_with, join_ranks, send_run, send_state
from regard.training.loop import TrainingJob, fit
from regard.training.memory import stopping_in_one_line
from regard.training.parallel_choice import choose_way, refuse_counted
from regard.training.parts import Parts, build_model
from regard.training.report import (
    TrainingProgress,
    describe_kernels,
    describe_machine,
    describe_model,
    describe_pairs,
    describe_text,
    describe_training,
)
from regard.training.request import (
    TrainingPlan,
    claim_folder,
    describe_choice,
    plan_new,
    plan_resumed,
    refuse_taken,
    settle_request,
)
from regard.training.request import TrainRequest as TrainRequest
from regard.training.step import TrainingPosition, tokens_a_step
from regard.training.tested_part import measure_test


def train(
    files: Any, *, minutes: float | None = None, steps: int | None = None, column: str | None = None, **options: Any
) -> Any:
    """Train a model on text files (an embedded corpus, a frame with the text in `column`) and return it, ready to use:
    a language model, a Trained, unless another `task` is given. Of several ranks that torchrun started, the first
    returns it, the others None."""
    tables = {table: dict(values) for table, values in dict(options.pop("settings", None) or {}).items()}
    for name, value in (("minutes", minutes), ("steps", steps)):
        if value is not None:
            tables.setdefault("training", {})[name] = value
    return run_together(TrainRequest(**take_frames(files, tables, column), settings=tables, **options))


def run_together(request: TrainRequest, began: float | None = None) -> Any:
    """Train on all ranks that torchrun started, or in this process alone; rank 0 returns the trained model."""
    from regard.training.together import run_as_rank

    with join_ranks(request.device) as ranks:
        return run_as_rank(request, began, ranks)


def run_training(request: TrainRequest, began: float | None = None, ranks: Ranks = ALONE) -> Any:
    """Start the run that was asked for, or go on with it; return the trained model. Minutes count from `began`."""
    began = time.monotonic() if began is None else began
    check_tables(request.settings or {})
    request = settle_request(request)
    asked, request = request, gone_on_with(request, ranks)
    progress = TrainingProgress(request.quiet)
    path, made = claim_folder(request)
    folder = RunFolder(path)
    refuse_taken(request, folder)
    with (kept_conditions(), refusing_in_one_line(), stopping_in_one_line(),
          use_folder(path, made, folder.settings_path), kept_frames(request, folder) as request):
        refuse_taken(request, folder)                        # it may have become one while we asked for the lock
        if folder.settings_path.exists():
            return resume(request, folder, progress, ranks, asked)
        if request.resume:
            progress.say(f"nothing to resume at {path}: starting anew")
        return start(request, folder, progress, began, ranks)


def start(request: TrainRequest, folder: RunFolder, progress: TrainingProgress, began: float, ranks: Ranks) -> Any:
    """Plan a new run, settle the number of its steps, and train; a family that is counted needs no steps."""
    say = progress.say
    plan = plan_new(request, say)
    if plan.family.count is not None:
        refuse_counted(plan)
        send_run(ranks, None)                                # rank 0 counts, and the others have nothing to do
        return count_alone(plan, folder, progress, began)
    refuse_minutes(plan.training)
    torch.manual_seed(plan.training.seed)
    model = build_model(plan)
    way = choose_way(plan, model, ranks, say)
    folder.begin()
    folder.save_tokenizer(plan.corpus.tokenizer)
    parts = Parts(plan, model, folder, progress, ranks, way)
    describe_text(plan.corpus, say)
    describe_pairs(plan.corpus, parts.batches, parts.held_out, plan.model.context, say)
    describe_model(plan.family.name, plan.model, model, say)
    describe_choice(plan, say)
    per_step = tokens_a_step(parts.batches)
    with count_beside(plan, folder, say):
        plan = replace(plan, training=settle_steps(
            plan.training, plan.corpus, plan.device, parts.make_step, per_step, began, plan.task.judge is not None))
    plan = replace(plan, training=stamp_lead(plan.training, began))
    job = parts.make_job(plan)
    describe_training(plan.training, per_step, len(plan.corpus.train.tokens), say)
    describe_kernels(job.step, plan.training, say)
    describe_machine(job.step, folder, say)
    position = TrainingPosition(micro_batch=plan.training.micro_batch)
    if plan.base is not None:
        # The weights begun with belong to the run, which may be moved.
        job.checkpoints.write(position, *job.checkpoints.beginnings())
    folder.save_settings(plan.tables())
    return finish(plan, job, position, folder)


def resume(
    request: TrainRequest, folder: RunFolder, progress: TrainingProgress, ranks: Ranks, asked: TrainRequest
) -> Any:
    """Go on with a run from its newest good checkpoint. `asked` is the request as the user made it."""
    folder.create()
    say = progress.say
    plan = plan_resumed(request, folder, say)
    if plan.changes or begun_with(plan) != asked.base:
        refuse_taken(asked, folder)                          # torchrun has started again what was refused before
    files = newest_good(folder, request.start_over, say)
    session = read_session(files)
    if not plan.training.threads and session.get("conditions"):
        plan = replace(plan, training=replace(plan.training, threads=session["conditions"]["threads"]))
    torch.manual_seed(plan.training.seed)
    check_saved(plan, folder, files)
    model = build_model(plan)
    way = choose_way(plan, model, ranks, say)
    job, steps = Parts(plan, model, folder, progress, ranks, way).make_job(plan), plan.training.steps
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
    now = current_conditions(job.step.model, ranks)
    if files is not None and (differs := changed_conditions(session.get("conditions"), now)):
        say(f"the last bits may differ from a run that was never stopped: {'; '.join(differs)}")
    return finish(plan, job, position, folder, files)


def begun_with(plan: TrainingPlan) -> str | None:
    """Return the run whose weights a resumed one began with."""
    return (plan.saved or {}).get("run", {}).get("from")


def finish(
    plan: TrainingPlan, job: TrainingJob, position: TrainingPosition, folder: RunFolder, files: Any = None
) -> Any:
    """Train to the end, fit the mixture and measure on the test part, if there are such; return the best weights,
    loaded from the folder. `files` are those of the checkpoint from which a run goes on."""
    ranks = job.step.ranks
    job.step.describe_ranks(job.report.say, plan.training)
    send_run(ranks, folder, job.step.way)
    position = send_state(ranks, job.checkpoints, position, files)
    job.report.progress.begin(job.settings.steps)
    try:
        position = fit(job, position)
    finally:
        job.report.close()
    ranks.end_training()
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
