"""Choices: with only a file given, everything else is chosen here for the text, the machine and the minutes.

What a user says wins over what the family suggests for its scale, which wins over the plain defaults. A budget of
steps, tokens or minutes becomes a number of steps, which is saved: schedules are functions of the step. With minutes it
is estimated from a few real steps, after which model and generators are put back; later it follows the clock, and each
change is recorded (minutes.py).
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional as F

from regard.config import as_values, change, fill
from regard.errors import SettingError, did_you_mean
from regard.families import Family
from regard.families.fit import TOLERANCE, fit_parameters, parameters
from regard.families.sizes import MOST_EPOCHS, Scale, Sizes, Tables
from regard.tasks.lm.batches import reading_for
from regard.training.checkpoint import random_states, set_random_states
from regard.training.recorded_step import RECORDED_AFTER
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingStep

DEFAULT_MINUTES = 5.0
SGD: dict[str, Any] = dict(learning_rate=0.3, weight_decay=0.0)        # of plain descent, unless the user names them
TABLES = ("data", "tokenizer", "model", "ngram", "training")

PACED = 0.2                    # seconds that a pace is measured for
PACE = 0.0145                  # seconds that a core of the reference machine took
SQUARE, GPU_PACE = 4096, 2e-4  # rows of two matrices, and the seconds that an H200 takes to multiply them
TRIAL_SECONDS = 1.0            # of timing steps with one number of threads, at most
TRIAL_SHARE = 0.005            # of the minutes given, where that is less: the plan follows the clock anyway
KINDS = 6                      # steps that differ in shape, tried in turns
MARGIN = 0.95                  # of the time left: a machine is rarely as fast for long as in a short trial
VALIDATION_SHARE = 0.02        # of a budget of minutes goes into validation, at most
LEAST = 2                      # validations
UNHURRIED_SHARE = 0.04         # of the training time, where the number of steps is given
FORWARD_SHARE = 1 / 3          # a forward pass costs about this much of a training step on the same tokens
SMALL_SPLIT = 2**18            # tokens: a held-out split up to this size is always measured whole
APART = 8.0                    # seconds between validations, at least, where a budget of minutes is given
JUDGED_APART = 120.0           # the same on a CPU where texts are written and judged: that takes 5 to 10 seconds there

MakeStep = Callable[[TrainingSettings], TrainingStep]


@dataclass(frozen=True)
class ChosenSettings:
    """The settings of the model and of its training, resolved but for the number of steps."""

    model: Any
    training: TrainingSettings
    why: str = ""                # this size and not the next, in a line


def check_tables(wanted: Tables) -> None:
    for table in wanted:
        if table not in TABLES:
            raise SettingError(f"unknown table [{table}]{did_you_mean(table, TABLES)}")


def check_early(family: Family, wanted: Tables) -> None:
    """Refuse settings that are wrong for any text, before it is read: that may take a while."""
    fill(TrainingSettings, wanted.get("training", {}), "training")
    scale = Scale(tokens=10**6, vocab=256, minutes=DEFAULT_MINUTES, gpu=False)
    sizes = family.sizes(scale, wanted)
    fill(family.settings, {**sizes.model, **wanted.get("model", {})}, "model")


def choose(
    family: Family, corpus: Any, wanted: Tables, device: torch.device, params: int | None = None, vocab: Any = None,
    scale: Scale | None = None,
) -> ChosenSettings:
    """Choose sizes and rates for this text on this machine; `wanted` and `params` hold the user's choices.

    `vocab` is what the family is built with, where that is not the tokenizer's number of tokens; `scale` is measured
    where it is not given.
    """
    asked = fill(TrainingSettings, dict(wanted.get("training", {})), "training")
    minutes = minutes_of(asked)
    if scale is None:
        scale = measure_scale(corpus, wanted, device, timed=family.build is not None)
    model, sizes = choose_sizes(family, scale, wanted, params, scale.vocab if vocab is None else vocab)
    plain = SGD if asked.optimizer == "sgd" else {}
    training = fill(TrainingSettings, {**sizes.training, **plain, **wanted.get("training", {})}, "training")
    if training.reading == "auto":
        training = replace(training, reading=reading_for(corpus.documents))
    if not (asked.steps or asked.tokens or asked.minutes):
        training = replace(training, epochs=training.epochs or MOST_EPOCHS)
    timed = minutes and params is None
    return ChosenSettings(model, replace(training, minutes=minutes), sizes.why if timed else "")


def minutes_of(asked: TrainingSettings) -> float:
    """Return the budget in minutes; 0 where it is one of steps or tokens."""
    return asked.minutes or (DEFAULT_MINUTES if not (asked.steps or asked.tokens) else 0.0)


def measure_scale(corpus: Any, wanted: Tables, device: torch.device, timed: bool = True) -> Scale:
    """Return the data, the machine and the budget; with `timed` its pace is measured for a budget of minutes."""
    asked = fill(TrainingSettings, dict(wanted.get("training", {})), "training")
    minutes = minutes_of(asked)
    return Scale(tokens=len(corpus.train.tokens), vocab=corpus.tokenizer.vocab_size, gpu=device.type == "cuda",
                 minutes=minutes or DEFAULT_MINUTES, steps=asked.steps, budget=asked.tokens,
                 pace=measure_pace(device) if minutes and timed else 1.0)


def measure_pace(device: torch.device) -> float:
    """Return the time that this machine takes now for what took the reference machine of its kind 1."""
    return {"cpu": measure_cpu, "cuda": measure_gpu}.get(device.type, lambda: 1.0)()


def measure_gpu() -> float:
    """Return the pace of a GPU: that of a product of two matrices, in the type that training would multiply in."""
    dtype = torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    x = torch.randn(SQUARE, SQUARE, device="cuda", dtype=dtype)
    times: list[float] = []
    began = time.monotonic()
    while time.monotonic() - began < PACED or len(times) < 3:
        start = time.monotonic()
        x @ x
        torch.cuda.synchronize()
        times.append(time.monotonic() - start)
    return sorted(times)[len(times) // 2] / GPU_PACE


def measure_cpu() -> float:
    """Return the pace of a CPU: that of a small feed-forward layer, forward and backward, with all threads or alone,
    whichever is quicker."""
    threads = torch.get_num_threads()
    first, second = torch.randn(512, 128, requires_grad=True), torch.randn(128, 512, requires_grad=True)
    x, quickest = torch.randn(1024, 128), math.inf
    try:
        for number in {threads, 1}:
            torch.set_num_threads(number)
            times: list[float] = []
            began = time.monotonic()
            while time.monotonic() - began < PACED or len(times) < 3:
                start = time.monotonic()
                F.linear(F.gelu(F.linear(x, first)), second).square().mean().backward()
                first.grad = second.grad = None
                times.append(time.monotonic() - start)
            quickest = min(quickest, sorted(times)[len(times) // 2])
    finally:
        torch.set_num_threads(threads)
    return quickest / PACE


def choose_sizes(
    family: Family, scale: Scale, wanted: Tables, params: int | None, vocab: Any
) -> tuple[Any, Sizes]:
    """Return the model's settings, with as many parameters as the user asked for, and the sizes suggested."""
    sizes = family.sizes(scale, wanted)
    named = dict(wanted.get("model", {}))
    model: Any = fill(family.settings, {**sizes.model, **named}, "model")
    if params is None:
        return model, sizes
    if family.build is None:
        raise SettingError(f"--params {params:,}: the {family.name} is counted and has no size to choose; leave it out")
    before, after = as_values(model), as_values(fit_parameters(family, model, vocab, params))
    for name in named:
        if before[name] != after[name]:
            raise SettingError(f"--params {params:,} chooses model.{name} = {after[name]}, not {before[name]}: "
                               "leave one of the two out")
    # How much to drop, and how fast to learn, follow the size that it has now.
    fixed = {name: value for name, value in after.items() if "dropout" not in name or name in named}
    sizes = family.sizes(scale, {**wanted, "model": fixed})
    model = fill(family.settings, {**after, **sizes.model, **fixed}, "model")
    size = parameters(family, model, vocab)
    if abs(size - params) > TOLERANCE * params:
        raise SettingError(f"--params {params:,}: the {family.name} has {size:,} and cannot be resized")
    return model, sizes


def changed_settings(
    before: Any, wanted: Mapping[str, Any], table: str, changeable: tuple[str, ...]
) -> tuple[Any, list[str]]:
    """Return the settings of a resumed run with the few changes that are possible, and a line on each."""
    after = change(before, dict(wanted), table)
    old, new = as_values(before), as_values(after)
    differing = [name for name in wanted if old[name] != new[name]]
    for name in differing:
        if name not in changeable:
            raise SettingError(
                f"{table}.{name} cannot change from {old[name]} to {new[name]} when a run is resumed: "
                "leave it out, or start a new run (--from RUN begins with this one's weights)")
    return after, [f"{table}.{name} {old[name]} -> {new[name]}" for name in differing]


# ------------------------------------------------------------------------------------------------ budgets


def settle_steps(
    s: TrainingSettings, corpus: Any, device: torch.device, make_step: MakeStep, tokens_a_step: int, began: float,
    judged: bool = False,
) -> TrainingSettings:
    """Return the settings with the number of steps that the budget allows, and all that follows from it.

    `judged`: validation writes texts, too.
    """
    steps = s.steps
    if not steps and s.tokens:
        steps = steps_for_tokens(s.tokens, tokens_a_step)
    if not steps:
        left = max(0.3 * s.minutes * 60, s.minutes * 60 - (time.monotonic() - began))
        steps, s = steps_for_minutes(s, device, make_step, left)
        if s.epochs:
            steps = min(steps, steps_for_tokens(int(s.epochs * len(corpus.train.tokens)), tokens_a_step))
        s = stamp_lead(replace(s, lead=1.0), began)
    apart = JUDGED_APART if judged and device.type == "cpu" else APART
    s = fill_intervals(s, steps, tokens_a_step, len(corpus.valid.tokens), apart)
    if device.type == "cpu" and not s.threads:
        s = replace(s, threads=torch.get_num_threads())      # another number would round otherwise
    return s


def stamp_lead(s: TrainingSettings, began: float) -> TrainingSettings:
    """Return the settings of a budget of minutes with the seconds that have gone by before the first step."""
    return replace(s, lead=round(time.monotonic() - began, 3)) if s.lead else s


def steps_for_tokens(tokens: int, per_step: int) -> int:
    return max(1, round(tokens / per_step))


def steps_for_minutes(
    s: TrainingSettings, device: torch.device, make_step: MakeStep, seconds_left: float
) -> tuple[int, TrainingSettings]:
    """Time a few steps on the real batches; return how many fit, and the settings with the quickest number of threads.

    Validation has its own share of the time.
    """
    began, trial = time.monotonic(), min(TRIAL_SECONDS, TRIAL_SHARE * 60 * s.minutes)
    per_step = time_steps(make_step(s), s.micro_batch, seconds=trial)
    s, per_step = quickest_threads(s, device, make_step, per_step, trial)
    seconds_left -= time.monotonic() - began
    return max(1, int(seconds_left * MARGIN * (1 - VALIDATION_SHARE) / per_step)), s


def quickest_threads(
    s: TrainingSettings, device: torch.device, make_step: MakeStep, per_step: float, seconds: float = TRIAL_SECONDS
) -> tuple[TrainingSettings, float]:
    """Try a single thread: threads wait for each other in every operation, and a small model is often quicker alone.

    Sums by another number of threads differ in their last bits, so that the number is part of the run.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or s.threads or threads == 1:
        return s, per_step
    torch.set_num_threads(1)
    alone = time_steps(make_step(s), s.micro_batch, seconds=seconds)
    if alone < per_step:
        return replace(s, threads=1), alone
    torch.set_num_threads(threads)
    return replace(s, threads=threads), per_step


def time_steps(
    step: TrainingStep, micro_batch: int, clock: Callable[[], float] = time.monotonic, seconds: float = TRIAL_SECONDS
) -> float:
    """Return the seconds a step takes, over a few trial steps that leave no trace in the model and the generators."""
    model = step.model
    random = random_states(model.device)
    weights = copy.deepcopy(model.state_dict())
    try:
        # Some steps again and again: compiling, recording and allocating are done before the clock starts.
        rounds, kinds = (RECORDED_AFTER + 1, KINDS) if step.forward_backward.recorded else (1, 1)
        for number in range(rounds * kinds):
            _trial(step, number % kinds, micro_batch, clock)
        began = time.monotonic()
        times: list[float] = []
        while time.monotonic() - began < seconds or len(times) < 3:
            times.append(_trial(step, len(times) % kinds, micro_batch, clock))
        return sorted(times)[len(times) // 2]
    finally:
        step.optimizers.zero_grad()
        model.load_state_dict(weights)
        set_random_states(random, model.device)


def _trial(step: TrainingStep, number: int, micro_batch: int, clock: Callable[[], float]) -> float:
    began = clock()
    step.set_rate(0.0)
    step.backward(number, micro_batch)
    step.clip_gradients()
    step.update_weights()
    if step.model.device.type == "cuda":
        torch.cuda.synchronize()
    return clock() - began


def plan_validations(
    steps: int, tokens_a_step: int, held_out: int, minutes: float = 0.0, apart: float = APART
) -> tuple[int, int]:
    """Return the steps between validations, and one in how many held-out batches each measures: 1 is the whole split.

    Validation may take a small share of the whole. It happens 20 times at most and LEAST times at least, and covers the
    whole split unless that is large and would take longer than its share. With a budget of minutes they are `apart`
    seconds apart, at least, if that leaves two: some tasks also write texts to be judged, which takes time of its own.
    """
    most = min(20, max(2, int(60 * minutes / apart))) if minutes else 20
    affordable = steps * tokens_a_step * (VALIDATION_SHARE if minutes else UNHURRIED_SHARE)   # in tokens trained on
    cost = held_out * FORWARD_SHARE
    number = int(min(most, max(LEAST, affordable / max(1.0, cost))))
    one_in = min(number * cost / affordable, held_out / SMALL_SPLIT)
    return max(1, steps // number), max(1, math.ceil(one_in)) if held_out > SMALL_SPLIT else 1


def fill_intervals(
    s: TrainingSettings, steps: int, tokens_a_step: int, held_out: int, apart: float = APART
) -> TrainingSettings:
    """Return the settings with everything filled in that depends on the number of steps."""
    every, one_in = plan_validations(steps, tokens_a_step, held_out, s.minutes, apart)
    every = s.valid_every or every
    return replace(
        s, steps=steps, valid_every=every, valid_one_in=s.valid_one_in or one_in,
        log_every=s.log_every or max(1, steps // 10_000))
