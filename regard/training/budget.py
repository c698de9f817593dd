"""Budgets: steps, tokens or minutes, turned into a number of steps once, which is then saved and fixed.

Schedules are functions of the step, so the number of steps must not depend on how fast the machine happens to be
later. With minutes it is estimated from a few real steps, after which model and generators are put back.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import replace

import torch

from regard.training.job import Job, random_states, set_random_states
from regard.training.passes import CAPTURED_AFTER, CapturedPass
from regard.training.settings import TrainingSettings

TRIAL_SECONDS = 2.0
KINDS = 6                      # steps that differ in shape, tried in turns
MARGIN = 0.87                  # of the time left: a machine is rarely as fast for long as in a short trial
VALIDATION_SHARE = 0.06        # of the training time goes into validation, at most
FORWARD_SHARE = 1 / 3          # a forward pass costs about this much of a training step on the same tokens
SMALL_SPLIT = 2**18            # tokens: a held-out split up to this size is always measured whole
APART = 8.0                    # seconds between validations, at least, where a budget of minutes is given


def steps_for_tokens(tokens: int, per_step: int) -> int:
    return max(1, round(tokens / per_step))


def steps_for_minutes(job: Job, seconds_left: float) -> int:
    """How many steps fit, by timing a few on the real batches; validation has its own share of the time."""
    began = time.monotonic()
    per_step = time_steps(job)
    job.settings, per_step = quickest_threads(job, per_step)
    seconds_left -= time.monotonic() - began
    return max(1, int(seconds_left * MARGIN * (1 - VALIDATION_SHARE) / per_step))


def quickest_threads(job: Job, per_step: float) -> tuple[TrainingSettings, float]:
    """Threads must wait for each other in every operation: a small model is often quicker with one of them.

    Sums by another number of threads differ in their last bits, so that the number is part of the run.
    """
    s, threads = job.settings, torch.get_num_threads()
    if job.model.device.type != "cpu" or s.threads or threads == 1:
        return s, per_step
    torch.set_num_threads(1)
    alone = time_steps(job)
    if alone < per_step:
        return replace(s, threads=1), alone
    torch.set_num_threads(threads)
    return replace(s, threads=threads), per_step


def step_tokens(job: Job) -> int:
    """Tokens read in a step; on average, where steps differ."""
    return max(1, int(getattr(job.batches, "tokens_a_step", 0)) or job.batches.batch(0).read)


def time_steps(job: Job) -> float:
    """Seconds a step, over a few trial steps that leave no trace."""
    random = random_states(job.model.device)
    weights = copy.deepcopy(job.model.state_dict())
    try:
        # Some steps again and again: compiling, recording and allocating are done before the clock starts.
        rounds, kinds = (CAPTURED_AFTER + 1, KINDS) if isinstance(job.run, CapturedPass) else (1, 1)
        for number in range(rounds * kinds):
            _trial(job, number % kinds)
        began = time.monotonic()
        times: list[float] = []
        while time.monotonic() - began < TRIAL_SECONDS or len(times) < 3:
            times.append(_trial(job, len(times) % kinds))
        return sorted(times)[len(times) // 2]
    finally:
        job.optimizers.zero_grad()
        job.model.load_state_dict(weights)
        set_random_states(random, job.model.device)
        job.forget()


def _trial(job: Job, step: int) -> float:
    began = time.monotonic()
    job.optimizers.set_rate(0.0)
    job.backward(step, job.settings.micro_batch)
    job.clip_gradients()
    job.update()
    if job.model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.monotonic() - began


def validations(steps: int, tokens_a_step: int, held_out: int, minutes: float = 0.0) -> tuple[int, int]:
    """Steps between validations, and one in how many held-out batches each measures: 1 is the whole split.

    Validation may take a small share of the whole. It happens 20 times at most and twice at least, and covers the
    whole split unless that is large and would take longer than its share. With a budget of minutes it does not come
    more often than every few seconds: some tasks also write what they are judged by, which has a price of its own.
    """
    most = min(20, max(2, int(60 * minutes / APART))) if minutes else 20
    affordable = steps * tokens_a_step * VALIDATION_SHARE                  # in tokens trained on
    cost = held_out * FORWARD_SHARE
    number = int(min(most, max(2, affordable / max(1.0, cost))))
    one_in = min(number * cost / affordable, held_out / SMALL_SPLIT)
    return max(1, steps // number), max(1, math.ceil(one_in)) if held_out > SMALL_SPLIT else 1


def fixed(s: TrainingSettings, steps: int, tokens_a_step: int, held_out: int) -> TrainingSettings:
    """The settings with everything that depends on the number of steps filled in."""
    every, one_in = validations(steps, tokens_a_step, held_out, s.minutes)
    every = s.valid_every or every
    return replace(
        s, steps=steps, valid_every=every, valid_one_in=s.valid_one_in or one_in,
        log_every=s.log_every or max(1, steps // 10_000))
