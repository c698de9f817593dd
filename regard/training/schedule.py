"""Learning-rate schedules: pure functions of the step, so that a resumed run needs to remember nothing."""

from __future__ import annotations

import math

from regard.training.settings import TrainingSettings


def rate(step: int, s: TrainingSettings) -> float:
    """The share of the learning rate in force for update number `step` (from 0)."""
    warmup = max(1, round(s.warmup * s.steps))
    if step < warmup:
        return (step + 1) / warmup
    if s.schedule == "constant":
        return 1.0
    if s.schedule == "cosine":
        done = (step - warmup) / max(1, s.steps - warmup)
        return s.final + (1 - s.final) * (1 + math.cos(math.pi * done)) / 2
    length = max(1, round(s.decay * s.steps))                    # warmup-stable-decay
    left = min(1.0, (s.steps - step) / length)
    return s.final + (1 - s.final) * left
