"""Learning-rate schedules: pure functions of the step and of the recorded plan, so a resumed run need not remember.

A run of so many minutes may change its number of steps on the way. The plan records where: from then on the schedule
runs faster or slower, from the place it has come to, and ends where it would have ended.
"""

from __future__ import annotations

import math

from regard.training.settings import TrainingSettings


def rate(step: int, s: TrainingSettings) -> float:
    """The share of the learning rate in force for update number `step` (from 0)."""
    place, steps = place_in_schedule(step, s)
    warmup = max(1, round(s.warmup * steps))
    if place < warmup:
        return min(1.0, (place + 1) / warmup)
    if s.schedule == "constant":
        return 1.0
    if s.schedule == "cosine":
        done = (place - warmup) / max(1, steps - warmup)
        return s.final + (1 - s.final) * (1 + math.cos(math.pi * done)) / 2
    length = max(1, round(s.decay * steps))                      # warmup-stable-decay
    left = min(1.0, (steps - place) / length)
    return s.final + (1 - s.final) * left


def place_in_schedule(step: int, s: TrainingSettings) -> tuple[float, int]:
    """Return the place of a step in the schedule as it was first planned, and how many steps it had then.

    plan = (0, S, k, S', ...): S steps in all, from step k on S' in all. After k the rest of the schedule, S - place(k)
    steps of the first plan, is spread over S' - k steps.
    """
    if not s.plan:
        return step, s.steps
    first, place, since, total = s.plan[1], 0.0, 0, s.plan[1]
    for begin, steps in zip(s.plan[2::2], s.plan[3::2], strict=True):
        if step <= begin:
            break
        place += (begin - since) * (first - place) / (total - since)
        since, total = begin, steps
    return place + (step - since) * (first - place) / (total - since), first
