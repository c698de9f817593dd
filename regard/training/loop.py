"""The training loop, on one screen, for every neural family.

One step: take batch number `step` (a pure function of the seed), go forward and backward in as many micro-batches as
memory wants, refuse anything that is not finite, update. Now and then validate, and save everything.
On a GPU the loop is one step ahead of the figures it reads, and waits before it saves anything.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import Interrupted
from regard.metrics.perplexity import held_out_loss
from regard.tasks import CARDS
from regard.training.checkpoint import Checkpoints, random_states, set_random_states
from regard.training.deterministic import any_order
from regard.training.minutes import Clock, Pace
from regard.training.report import Figures, TrainingReport, format_seconds, require_finite
from regard.training.schedule import rate
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingPosition, TrainingStep
from regard.training.stopping import stop_signals

JUDGED = dict(card.judged for card in CARDS.values() if card.judged)       # what tasks judge by, and its names


def fit(job: TrainingJob, position: TrainingPosition) -> TrainingPosition:
    """Train from a position to the last step, or until the validation loss stops falling; return the position then."""
    s, step = job.settings, job.step
    clock = Clock(position.seconds)
    waiting: deque[tuple[TrainingPosition, Figures]] = deque()
    with stop_signals() as asked:
        stop = step.ranks.agree_to_stop(asked)
        while not is_over(position, s):
            step.set_rate(rate(position.step, s))
            loss, tokens, micro_batch = step.backward(position.step, position.micro_batch)
            figures = Figures(position.step, loss, step.clip_gradients(), step.ranks)
            if not step.ahead:
                figures.read()                                # a loss that is not finite changes no weight
            step.update_weights()
            position = replace(position, step=position.step + 1, tokens=position.tokens + tokens,
                               micro_batch=micro_batch, seconds=clock.seconds())
            stopping, last = stop(), position.step == s.steps
            measure, save = due(position.step, s.valid_every, s.steps), should_save(job, position.step) or stopping
            waiting.append((position, figures))
            while len(waiting) > (1 if step.ahead and not (measure or save) else 0):
                report_step(job, *waiting.popleft())
            if measure:
                position = validate(job, position, clock)
            if job.pace is not None and (changed := follow_clock(job, position, clock, measure)) is not None:
                job = record_plan(job, changed)
                s = job.settings
            if save or is_over(position, s):
                save_all(job, position)
            if stopping and not last:
                step.ranks.wait()                             # until everything is saved
                raise Interrupted(f"stopped at step {position.step:,} of {s.steps:,}; everything is saved: "
                                  "go on with --resume")
    return position


@dataclass(frozen=True)
class TrainingJob:
    """Everything that `fit` works on."""

    settings: TrainingSettings
    step: TrainingStep
    held_out: Any                                              # the held-out batches
    report: TrainingReport
    checkpoints: Checkpoints
    judge: Callable[[], dict[str, float]] | None = None        # what validation measures beside the loss
    write_sample: Callable[[], dict[str, Any]] | None = None   # what the model writes now
    pace: Pace | None = None                                   # of a budget of minutes
    save_plan: Callable[[TrainingSettings], None] | None = None        # into run.toml

    def measure(self) -> dict[str, float]:
        """Measure the model on the held-out part; return its loss, and what else the task measures."""
        step = self.step
        with step.averaged_weights():
            loss = held_out_loss(step.model, self.held_out, bfloat16=step.bfloat16, ranks=step.ranks)
            return step.ranks.decide({"valid_loss": loss, **(self.judge() if self.judge is not None else {})})

    def sample(self, position: TrainingPosition) -> None:
        """Log what the model writes now, unless that takes too long; training goes on as if nothing was written."""
        last, samples = position.step == self.settings.steps, self.report.samples
        if self.write_sample is None or not (last or samples.due(position.seconds)):
            return
        device = self.step.model.device
        began, random = time.monotonic(), random_states(device)
        with self.step.averaged_weights(), any_order():
            written = self.write_sample()
        set_random_states(random, device)
        took = round(time.monotonic() - began, 3)
        samples.row({"step": position.step, "seconds": position.seconds, "took": took, **written})


def follow_clock(job: TrainingJob, position: TrainingPosition, clock: Clock, measured: bool) -> TrainingSettings | None:
    """Return the settings with another number of steps, if rank 0 finds it time for that."""
    s, ranks = job.settings, job.step.ranks
    if not (measured or ranks.looks_at_clock(position.step, s.steps)):
        return None
    changed = change_plan(job, position, clock, measured)
    decided: Any = ranks.decide(None if changed is None else {"steps": changed.steps, "plan": changed.plan})
    return None if decided is None else replace(s, steps=decided["steps"], plan=tuple(decided["plan"]))


def change_plan(job: TrainingJob, position: TrainingPosition, clock: Clock, measured: bool) -> TrainingSettings | None:
    """Return the settings with another number of steps: as the clock asks, or fewer where the held-out loss turned."""
    assert job.pace is not None
    s = job.settings
    if measured and (changed := job.pace.end_early(position.step, position.waited, s)) is not None:
        job.report.say(f"the held-out loss no longer falls: training ends at step {changed.steps:,}, not {s.steps:,}")
        return changed
    return job.pace.replan(position.step, clock.seconds(), s)


def record_plan(job: TrainingJob, changed: TrainingSettings) -> TrainingJob:
    """Return the job with another number of steps, once the change is recorded."""
    assert job.save_plan is not None, "a plan that changes is saved"
    job.save_plan(changed)
    job.report.progress.change_steps(changed.steps)
    return replace(job, settings=changed)


def is_over(position: TrainingPosition, s: TrainingSettings) -> bool:
    return position.step >= s.steps or bool(s.patience and position.waited >= s.patience)


def report_step(job: TrainingJob, position: TrainingPosition, figures: Figures) -> None:
    """Log and show the figures of the step that led to `position`."""
    s = job.settings
    loss, norm = figures.read()
    if position.step == s.steps or position.step % s.log_every == 0:
        job.report.log(position, train_loss=loss, gradient_norm=norm, rate=rate(position.step - 1, s),
                       **job.step.ranks.speeds())
    job.report.show(position, loss)


def due(step: int, every: int, last: int) -> bool:
    """Return True every so many steps and at the last one, but not shortly before it."""
    return step == last or (step % every == 0 and step + every // 2 <= last)


def should_save(job: TrainingJob, step: int) -> bool:
    """Return whether to save: every so many steps, if the user set them; else at validations long enough after the last
    checkpoint."""
    s = job.settings
    return due(step, s.checkpoint_every or s.valid_every, s.steps) and (
        bool(s.checkpoint_every) or job.step.ranks.decide(job.checkpoints.worthwhile()))


def save_all(job: TrainingJob, position: TrainingPosition) -> None:
    """Save a checkpoint; the time it takes is none of a step's."""
    began = time.monotonic()
    job.checkpoints.save(position)
    if job.pace is not None:
        job.pace.count_saving(time.monotonic() - began)


def validate(job: TrainingJob, position: TrainingPosition, clock: Clock) -> TrainingPosition:
    """Measure on the held-out part; keep the weights if they are the best so far."""
    began = time.monotonic()
    with job.step.gathered():
        measured = job.measure()
        took = time.monotonic() - began
        require_finite(position.step, "", **{"validation loss": measured["valid_loss"]})
        now = cost(measured)
        better = now < position.best
        position = replace(position, best=min(now, position.best), waited=0 if better else position.waited + 1,
                           seconds=clock.seconds())
        job.report.log(position, **measured)
        job.report.say(f"step {position.step:,} · {format_seconds(position.seconds)} · validation {describe(measured)}"
                       + (" (best)" if better else ""))
        job.step.ranks.name_straggler(job.report.say)
        if better:
            job.checkpoints.keep_weights()
        with job.step.ranks.busy():
            job.sample(position)
    if job.pace is not None:
        job.pace.count_validation(took, time.monotonic() - began - took)
    return position


def cost(measured: dict[str, float]) -> float:
    """Return the number to minimise: the loss; or minus the score of the model's texts, where a task judges them, with
    the loss deciding between equals."""
    judged = [value for name, value in measured.items() if name != "valid_loss"]
    return measured["valid_loss"] if not judged else 1e-4 * measured["valid_loss"] - judged[0]


def describe(measured: dict[str, float]) -> str:
    judged = [f" · {JUDGED.get(name, name)} {value:.2f}" for name, value in measured.items() if name != "valid_loss"]
    return f"loss {measured['valid_loss']:.4f}" + "".join(judged)
