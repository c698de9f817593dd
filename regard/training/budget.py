"""Budgets: steps, tokens or minutes, turned into a number of steps once, which is then saved and fixed.

Schedules are functions of the step, so the number of steps must not depend on how fast the machine happens to be
later. With minutes it is estimated from a few real steps, after which model and generators are put back.
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace

import torch

from regard.training.job import Job, random_states, set_random_states
from regard.training.settings import TrainingSettings

TRIAL_SECONDS = 3.0
MARGIN = 0.97                  # of the time left: a machine is rarely faster than in a short trial
VALIDATION_SHARE = 0.06        # of the training time goes into validation, at most
FORWARD_SHARE = 1 / 3          # a forward pass costs about this much of a training step on the same tokens


def steps_for_tokens(tokens: int, per_step: int) -> int:
    return max(1, round(tokens / per_step))


def steps_for_minutes(job: Job, seconds_left: float) -> int:
    """How many steps fit, by timing a few on the real batches."""
    per_step = time_steps(job)
    per_validation = per_step * FORWARD_SHARE * validation_tokens(job) / step_tokens(job)
    left = seconds_left * MARGIN - per_validation                          # the last validation always happens
    return max(1, int(left * (1 - VALIDATION_SHARE) / per_step))


def step_tokens(job: Job) -> int:
    return max(1, job.batches.batch(0).real)


def validation_tokens(job: Job) -> int:
    held_out = job.validation
    return len(held_out.shard.tokens) // held_out.every


def time_steps(job: Job) -> float:
    """Seconds a step, over a few trial steps that leave no trace."""
    random = random_states(job.model.device)
    weights = copy.deepcopy(job.model.state_dict())
    try:
        _trial(job)                                                        # warm-up: compiling, allocating
        began = time.monotonic()
        times: list[float] = []
        while time.monotonic() - began < TRIAL_SECONDS or len(times) < 3:
            times.append(_trial(job))
        return sorted(times)[len(times) // 2]
    finally:
        job.optimizers.zero_grad()
        job.model.load_state_dict(weights)
        set_random_states(random, job.model.device)
        job.forget()


def _trial(job: Job) -> float:
    began = time.monotonic()
    job.optimizers.set_rate(0.0)
    job.backward(0, job.settings.micro_batch)
    job.clip_gradients()
    job.update()
    if job.model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.monotonic() - began


def validation_interval(steps: int, tokens_a_step: int, held_out_tokens: int) -> int:
    """Steps between validations, so that they cost a small share of the whole: 20 at most, 2 at least."""
    cost = held_out_tokens * FORWARD_SHARE
    affordable = steps * tokens_a_step * VALIDATION_SHARE / max(1.0, cost)
    return max(1, steps // int(min(20, max(2, affordable))))


def fixed(s: TrainingSettings, steps: int, tokens_a_step: int, held_out_tokens: int) -> TrainingSettings:
    """The settings with everything that depends on the number of steps filled in."""
    every = s.valid_every or validation_interval(steps, tokens_a_step, held_out_tokens)
    return replace(
        s, steps=steps, valid_every=every, checkpoint_every=s.checkpoint_every or every,
        log_every=s.log_every or max(1, steps // 10_000))
