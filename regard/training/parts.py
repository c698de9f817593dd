"""The parts of a job that do not depend on the number of steps: the model, its batches, its passes, its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from regard.contract import Learner
from regard.errors import SettingError
from regard.models.missing_tokens import leave_out
from regard.ranks import ALONE, Ranks
from regard.run_folder import RunFolder
from regard.training.buckets import BucketedStep
from regard.training.checkpoint import Checkpoints, set_conditions
from regard.training.loop import TrainingJob
from regard.training.memory import out_of_memory
from regard.training.minutes import make_pace
from regard.training.report import TrainingProgress, TrainingReport
from regard.training.request import TrainingPlan
from regard.training.sharded_checkpoint import ShardedCheckpoints
from regard.training.sharded_step import ShardedStep, make_layered_passes, make_sharded_passes
from regard.training.sharding import Shards
from regard.training.step import TrainingStep, make_forward_backward, to_bfloat16, tokens_a_step
from regard.training.tested_part import count_tested

STEPS = {"data": TrainingStep, "buckets": BucketedStep}        # where every rank holds all weights


def build_model(plan: TrainingPlan) -> Learner:
    """Build the model, with the base's weights where there is one, in the memory of the host."""
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
    return leave_out(model, plan.corpus.tokenizer)


class Parts:
    """The parts of a job that do not depend on the number of steps: with these, steps can be timed."""

    def __init__(
        self, plan: TrainingPlan, model: Learner, folder: RunFolder, progress: TrainingProgress, ranks: Ranks = ALONE,
        way: str = "data",
    ):
        s, task, context = plan.training, plan.task, plan.model.context
        self.way, self.folder, self.ranks = way, folder, ranks
        shards = Shards(model, ranks, plan.device, bfloat16=to_bfloat16(plan.device, s),
                        carries=s.reading == "streams") if way == "fsdp" else None
        self.model = model = model.to(plan.device) if shards is None else shards.whole
        set_conditions(s, model, progress.say)
        self.batches = task.batches(plan.corpus, s, context)
        self.held_out = task.held_out(plan.corpus, s, context)
        self.report = TrainingReport(folder, progress)
        forward_backward = (make_sharded_passes(shards, s) if shards is not None else make_layered_passes(model, s)
                            if way == "buckets" else make_forward_backward(model, s, progress.say))  # compiled once
        ranks.expect(forward_backward.compiled or forward_backward.recorded)
        self.make_step: Callable[..., TrainingStep] = partial(
            partial(ShardedStep, shards=shards) if shards is not None else STEPS[way], model, self.batches,
            forward_backward=forward_backward, say=ranks.speaker(progress.say), context=context, ranks=ranks.trial())

    def make_job(self, plan: TrainingPlan) -> TrainingJob:
        s, task, context = plan.training, plan.task, plan.model.context
        step = self.make_step(s, ranks=self.ranks)
        self.report.open_trackers(plan)
        return TrainingJob(
            s, step, replace(self.held_out, every=max(1, s.valid_one_in)), self.report,
            (ShardedCheckpoints if self.way == "fsdp" else Checkpoints)(self.folder, step, self.report, s.keep),
            judge=None if task.judge is None else partial(task.judge, self.model, plan.corpus, context, self.ranks),
            write_sample=task.sampler(self.model, plan.corpus, context) if s.samples and self.ranks.first else None,
            pace=make_pace(s, tokens_a_step(self.batches), len(plan.corpus.train.tokens),
                           len(plan.corpus.valid.tokens), plan.fitted, count_tested(plan)),
            save_plan=lambda changed: self.folder.save_settings(replace(plan, training=changed).tables()))
