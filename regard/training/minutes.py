"""A budget of minutes, kept: the number of steps follows the clock, and each change of it is recorded in the run.

The first number is estimated from a few steps. A machine that becomes busy, or free, makes steps slower or quicker;
so the pace is measured all along, and where the estimate is off the plan is changed (schedule.py says how the learning
rate follows). Where the held-out loss has turned, the schedule is brought to its end early: more minutes would only
learn the text by heart. Bits are those of the recorded plan: a run that is resumed, or given the same plan, ends the
same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from regard.training.choices import FORWARD_SHARE, steps_for_tokens
from regard.training.settings import TrainingSettings

CHECKED = 0.02             # of the budget lies between two looks at the clock
TOLERATED = 0.02           # of the steps left: a smaller change is not worth recording
LATEST = 0.6               # how much the newest measurement of the pace counts against those before it
TURNED = 2                 # validations without a better one, after which the held-out loss counts as turned
ENDING = 0.15              # of the steps made so far are left then, for the learning rate to fall
FITTING = 1.5              # a pass that fits a mixture looks at all logits, and counts: longer than a validation


class Clock:
    """Seconds of training, counted on from an earlier session."""

    def __init__(self, before: float):
        self.origin = time.monotonic() - before

    def seconds(self) -> float:
        return round(time.monotonic() - self.origin, 3)


@dataclass
class Pace:
    """The pace of training against a budget, in seconds of the training clock."""

    seconds: float                       # of training, all in all
    most: int = 0                        # steps, where the text shall not be read more often; 0: no limit
    passes_after: float = 0.0            # work behind the last step, in validations
    validation_steps: float = 0.0        # the time of a validation as a number of steps, until one was measured
    validation: float = 0.0              # seconds that a validation takes, as measured so far
    saving: float = 0.0                  # seconds that the last checkpoint took
    step_seconds: float = 0.0            # of a step, as measured so far
    step: int = field(default=-1)        # at the last look at the clock
    clock: float = 0.0
    elsewhere: float = 0.0               # seconds since then that did not go into steps
    ending: bool = False                 # the schedule is being brought to its end

    def count_validation(self, seconds: float, sampling: float = 0.0) -> None:
        """Count a validation, and the writing of a sample after it, which is rare and takes longest the first time."""
        share = LATEST if self.validation else 1.0
        self.validation += share * (seconds - self.validation)
        self.elsewhere += seconds + sampling

    def count_saving(self, seconds: float) -> None:
        """Count a checkpoint; there will be one behind the last step, too."""
        self.saving = seconds
        self.elsewhere += seconds

    def replan(self, step: int, clock: float, s: TrainingSettings) -> TrainingSettings | None:
        """Return the settings with another number of steps, if the pace asks for it."""
        if self.ending or is_replayed(step, s):
            return None
        if self.step < 0:
            self.step, self.clock = step, clock
            return None
        spent, done = clock - self.clock - self.elsewhere, step - self.step
        if done < 1 or clock - self.clock < CHECKED * self.seconds or step >= s.steps:
            return None
        share = LATEST if self.step_seconds else 1.0
        self.step_seconds += share * (spent / done - self.step_seconds)
        self.step, self.clock, self.elsewhere = step, clock, 0.0
        steps = self.affordable(step, clock, s)
        if abs(steps - s.steps) <= max(1, TOLERATED * (s.steps - step)):
            return None
        return change_steps(s, step, steps)

    def end_early(self, step: int, waited: int, s: TrainingSettings) -> TrainingSettings | None:
        """Return the settings with fewer steps, if the held-out loss has not fallen for `waited` validations."""
        steps = step + max(1, s.valid_every, int(ENDING * step))
        if self.ending or waited < TURNED or steps >= s.steps or is_replayed(step, s):
            return None
        self.ending = True
        return change_steps(s, step, steps)

    def affordable(self, step: int, clock: float, s: TrainingSettings) -> int:
        """Return how many steps the budget buys in all: time left for steps and validations, at the pace measured."""
        validation = self.validation or self.validation_steps * self.step_seconds
        after = validation * (1 + self.passes_after) + self.saving                     # the last validation, and after
        left = self.seconds - clock - after
        each = self.step_seconds + validation / max(1, s.valid_every)
        steps = step + max(1, int(left / max(each, 1e-9)))
        return min(steps, max(self.most, step + 1)) if self.most else steps


def is_replayed(step: int, s: TrainingSettings) -> bool:
    """Return whether a resumed run has not yet come to the last change that its plan records."""
    return bool(s.plan) and step < s.plan[-2]


def change_steps(s: TrainingSettings, step: int, steps: int) -> TrainingSettings:
    """Return the settings with another number of steps in all, from this step on; a change at the same step is one."""
    before = s.plan or (0, s.steps)
    if before[-2] == step:
        before = before[:-2]
    return replace(s, steps=steps, plan=(*before, step, steps))


def make_pace(
    s: TrainingSettings, per_step: int, tokens: int, held_out: int, fitted: int, tested: int | None = 0
) -> Pace | None:
    """Return the pace of a budget of minutes; None where the number of steps is fixed.

    A step reads `per_step` of the `tokens` to learn from; a mixture is fitted on `fitted` at most, 0: there is none.
    The trained model is measured on `tested`, None: on as many as a validation reads.
    """
    if not (s.lead and s.minutes):
        return None
    validated = max(1.0, held_out / max(1, s.valid_one_in))
    test_passes = (FITTING if fitted else 1.0) * (1.0 if tested is None else tested / validated)
    return Pace(60 * s.minutes - s.lead, steps_for_tokens(int(s.epochs * tokens), per_step) if s.epochs else 0,
                passes_after=FITTING * min(fitted, held_out) / validated + test_passes,
                validation_steps=FORWARD_SHARE * validated / per_step)
