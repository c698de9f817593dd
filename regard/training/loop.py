"""The training loop, on one screen, for every neural family.

One step: take batch number `step` (a pure function of the seed), go forward and backward in as many pieces as
memory wants, refuse anything that is not finite, update. Now and then validate, and save everything.
On a GPU the loop is one step ahead of what it reads (see figures.py), and waits before it saves anything.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from regard.errors import Interrupted
from regard.tasks import CARDS
from regard.training.figures import Figures
from regard.training.job import Job
from regard.training.log import spoken
from regard.training.schedule import rate
from regard.training.settings import TrainingSettings

JUDGED = dict(card.judged for card in CARDS.values() if card.judged)       # what tasks judge by, and its names


@dataclass(frozen=True)
class At:
    """Where training stands. All of it is in every checkpoint."""

    step: int = 0                    # updates made
    tokens: int = 0                  # real tokens read
    seconds: float = 0.0             # spent training, over all sessions
    best: float = math.inf           # lowest `cost` of a validation so far
    waited: int = 0                  # validations since then
    micro_batch: int = 0             # rows at once; halved when memory runs out


def fit(job: Job, at: At) -> At:
    """Train from where `at` stands to the last step, or until the validation loss has stopped falling."""
    s = job.settings
    clock = Clock(at.seconds)
    waiting: deque[tuple[At, Figures]] = deque()
    with stop_signals() as stop:
        while not ended(at, s):
            job.optimizers.set_rate(rate(at.step, s))
            loss, tokens, micro = job.backward(at.step, at.micro_batch)
            figures = Figures(at.step, loss, job.clip_gradients())
            if not job.ahead:
                figures.read()                                # what is not finite changes no weight
            job.update()
            at = replace(at, step=at.step + 1, tokens=at.tokens + tokens, micro_batch=micro, seconds=clock.seconds())
            stopping, last = stop(), at.step == s.steps
            measure, save = due(at.step, s.valid_every, s.steps), saves(job, at.step) or stopping
            waiting.append((at, figures))
            while len(waiting) > (1 if job.ahead and not (measure or save) else 0):
                tell(job, *waiting.popleft())
            if measure:
                at = validate(job, at, clock)
            if save or ended(at, s):
                job.save(at)
            if stopping and not last:
                raise Interrupted(f"stopped at step {at.step:,} of {s.steps:,}; everything is saved: "
                                  "go on with --resume")
    return at


def ended(at: At, s: TrainingSettings) -> bool:
    return at.step >= s.steps or bool(s.patience and at.waited >= s.patience)


def tell(job: Job, at: At, figures: Figures) -> None:
    """What came out of the step that led to `at`."""
    loss, norm = figures.read()
    if at.step == job.settings.steps or at.step % job.settings.log_every == 0:
        job.log(at, train_loss=loss, gradient_norm=norm, rate=rate(at.step - 1, job.settings))
    job.show(at, loss)


def due(step: int, every: int, last: int) -> bool:
    """Every so many steps and at the last one, but not shortly before it."""
    return step == last or (step % every == 0 and step + every // 2 <= last)


def saves(job: Job, step: int) -> bool:
    """Every so many steps, where that was said; else at validations that come long enough after the last checkpoint."""
    s = job.settings
    return due(step, s.checkpoint_every or s.valid_every, s.steps) and (bool(s.checkpoint_every) or job.saving_pays())


def validate(job: Job, at: At, clock: Clock) -> At:
    """Measure on the held-out part; keep the weights if they are the best so far."""
    found = job.validate()
    now = cost(found)
    better = now < at.best
    at = replace(at, best=min(now, at.best), waited=0 if better else at.waited + 1, seconds=clock.seconds())
    job.log(at, **found)
    job.say(f"step {at.step:,} · {spoken(at.seconds)} · validation {told(found)}" + (" (best)" if better else ""))
    if better:
        job.keep_weights()
    job.sample(at)
    return at


def cost(found: dict[str, float]) -> float:
    """What is to be low: the loss; but where a task judges what the model writes, that is to be high, and of equals
    the loss low."""
    judged = [value for name, value in found.items() if name != "valid_loss"]
    return found["valid_loss"] if not judged else 1e-4 * found["valid_loss"] - judged[0]


def told(found: dict[str, float]) -> str:
    judged = [f" · {JUDGED.get(name, name)} {value:.2f}" for name, value in found.items() if name != "valid_loss"]
    return f"loss {found['valid_loss']:.4f}" + "".join(judged)


class Clock:
    """Seconds of training, counted on from an earlier session."""

    def __init__(self, before: float):
        self.origin = time.monotonic() - before

    def seconds(self) -> float:
        return round(time.monotonic() - self.origin, 3)


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first SIGINT or SIGTERM into a request that the loop sees; a second one interrupts at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
