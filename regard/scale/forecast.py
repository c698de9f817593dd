"""A whole `regard scale`: each run once, stored as it ends; then a law for each axis, and what ten times more gives.

    FOLDER/
      plan.json           the request, the settings that all runs share, and their lengths
      runs/NAME.json      what was measured of each run; runs/NAME/ while it is trained
      scale.json          everything: runs, laws, what is predicted
      scale.html          the page; AXIS-QUANTITY.svg and .png its charts
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import storage
from regard.compare.plan import output_folder
from regard.compare.subject import subject_of
from regard.errors import Interrupted, RunError, SettingError
from regard.run_folder import refuse_links
from regard.run_lock import use_folder
from regard.scale.ladder import (
    AHEAD,
    FILE,
    Rung,
    Say,
    ScalePlan,
    ScaleRequest,
    check_request,
    comparable,
    list_changes,
    make_plan,
)
from regard.scale.power_law import LENGTHS, OTHERS, Interval, between, fit_power_law, seed_noise
from regard.scale.rung_run import Record, prepare_corpus, quantities, read_record, run_rung, time_overhead
from regard.training.report import format_seconds

FULL = 100.0               # what a score can reach, of which the law fits the shortfall
BEGUN = 5.0                # a score below this has not begun to rise, and no law says when it will
CURVE = 25                 # points of a fitted curve


@dataclass(frozen=True)
class AxisForecast:
    """One quantity along one axis: what was measured, the law, and the prediction at ten times more.

    A score of which more is better is fitted as its shortfall from FULL, which falls as a loss does.
    """

    axis: str                                # minutes · size · data
    quantity: str                            # loss, or the task's own metric
    points: list[tuple[float, float]]        # x and the value of each run; x in steps, parameters or tokens
    here: float                              # x now
    now: float                               # the mean value there
    more: Interval                           # one run at ten times x
    floor: Interval                          # where the curve ends
    alpha: float
    curve: list[tuple[float, Interval]]      # the mean of runs, from the smallest x to ten times more

    @property
    def gain(self) -> float:
        """The share of what was missing now that ten times more takes away."""
        return 1 - shortfall(self.quantity, self.more.median) / shortfall(self.quantity, self.now)


@dataclass(frozen=True)
class ScaleForecast:
    """All axes and quantities, and the runs they come from."""

    folder: Path
    plan: ScalePlan
    records: list[Record]
    axes: list[AxisForecast]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {"request": self.plan.request, "steps": self.plan.steps, "parameters": self.plan.parameters,
                "tokens": self.plan.text["tokens"], "step_seconds": self.plan.step_seconds,
                "training": self.plan.training, "models": self.plan.models, "times": AHEAD,
                "forecasts": [asdict(each) for each in self.axes], "runs": self.records}


def shortfall(quantity: str, value: float) -> float:
    """The value as a law fits it: a loss as it is, a score as what is missing to FULL."""
    return value if quantity == "loss" else max(FULL - value, 1e-3)


def as_value(quantity: str, interval: Interval) -> Interval:
    """The interval of a shortfall as one of the quantity."""
    if quantity == "loss":
        return interval
    return Interval(*(max(0.0, FULL - each) for each in (interval.median, interval.high, interval.low)))


# ------------------------------------------------------------------------------------------------ a whole run


def scale(request: ScaleRequest, say: Say = print) -> ScaleForecast:
    """Make every run that is missing, fit, and write the results; what was interrupted goes on."""
    began, family = time.monotonic(), check_request(request)
    folder = output_folder(request.files, request.out, f"scale/{{}}-{request.task}", FILE, "scaling")
    with use_folder(folder, storage.claim_folder(folder), folder / FILE):
        refuse_links("a scaling", folder, folder / "runs")
        corpus = prepare_corpus(comparable(request), say)
        if (folder / FILE).exists():
            plan = load_plan(folder, request, corpus)
        else:
            plan = make_plan(request, family, corpus, lambda trial: time_overhead(trial, corpus), began)
            plan.save(folder)
        storage.make_folder(folder / "runs")
        say(describe_plan(plan))
        return write_forecast(folder, plan, run_rungs(folder, plan, corpus, say))


def load_plan(folder: Path, request: ScaleRequest, corpus: Any) -> ScalePlan:
    """The plan of a folder; refused where another request or another text was given."""
    plan = ScalePlan.load(folder)
    for change in list_changes(plan.request, comparable(request)):
        raise SettingError(f"{folder} holds a scaling with {change}: use the same settings to go on with it, or "
                           "another folder with --out")
    if (plan.text["content"], plan.text["digest"]) != (corpus.content, corpus.tokenizer.digest()):
        raise RunError(f"the text has changed since {folder} began: start another one with --out")
    return plan


def describe_plan(plan: ScalePlan) -> str:
    rungs = plan.rungs()
    lengths = ", ".join(f"{steps:,}" for steps in sorted({rung.steps for rung in rungs}))
    seconds = plan.step_seconds.get(str(plan.parameters))
    timed = "" if seconds is None else f" · the longest about {format_seconds(seconds * plan.steps)}"
    return f"{len(rungs)} runs of {lengths} steps, {plan.parameters:,} parameters in the middle{timed}"


def run_rungs(folder: Path, plan: ScalePlan, corpus: Any, say: Say) -> list[Record]:
    """Every run in turn; those that have ended are not run again."""
    rungs = plan.rungs()
    records = {rung: read_record(folder, rung) for rung in rungs}
    waiting = [rung for rung in rungs if records[rung] is None]
    if len(waiting) < len(rungs):
        say(f"{len(rungs) - len(waiting)} of {len(rungs)} runs in {folder} are done and kept")
    spent, work = 0.0, 0.0
    for place, rung in enumerate(waiting):
        done = len(rungs) - len(waiting) + place
        try:
            record = records[rung] = run_rung(folder, plan, rung, corpus)
        except Interrupted:
            raise Interrupted(f"stopped during {rung.label}; {done} of {len(rungs)} runs are done and kept: go on with "
                              "the same command") from None
        spent, work = spent + record["seconds"], work + cost(plan, rung)
        left = spent / work * sum(cost(plan, other) for other in waiting[place + 1:])
        shown = " · ".join(f"{name} {record[name]:.4g}" for name in quantities(subject_of(plan.request["task"])))
        say(f"{done + 1}/{len(rungs)}  {rung.label}: {shown} · {format_seconds(left)} left")
    return [record for record in records.values() if record is not None]


def cost(plan: ScalePlan, rung: Rung) -> float:
    """The work of a run: its steps, by the time of one where that is known."""
    return rung.steps * plan.step_seconds.get(str(rung.parameters), 1.0)


# ------------------------------------------------------------------------------------------------ the laws


def write_forecast(folder: Path, plan: ScalePlan, records: list[Record]) -> ScaleForecast:
    from regard.scale.forecast_page import draw_charts, make_page

    forecast = ScaleForecast(folder, plan, records, fit_axes(plan, records))
    storage.write_json(folder / "scale.json", storage.finite(forecast.as_dict()))
    charts = draw_charts(forecast)
    for name, drawn in charts.items():
        storage.write_file(folder / name, drawn)
    storage.write_file(folder / "scale.html", make_page(forecast, charts))
    return forecast


def fit_axes(plan: ScalePlan, records: Sequence[Record]) -> list[AxisForecast]:
    """A law for each axis of which several values were measured, and for each quantity; none for a score that has not
    begun to rise."""
    forecasts = []
    for quantity in quantities(subject_of(plan.request["task"])):
        lengths = points_of(plan, records, "minutes", quantity)
        if has_not_begun(quantity, lengths):
            continue
        noise = seed_noise([x for x, _ in lengths], [shortfall(quantity, y) for _, y in lengths])
        for axis in plan.axes:
            points = points_of(plan, records, axis, quantity)
            if len({x for x, _ in points}) > 1:
                forecasts.append(forecast_axis(axis, quantity, points, here_of(plan, axis), noise))
    return forecasts


def has_not_begun(quantity: str, lengths: Sequence[tuple[float, float]]) -> bool:
    """True for a score that the longest runs still have next to nothing of."""
    return quantity != "loss" and max(y for x, y in lengths if x == lengths[-1][0]) < BEGUN


def here_of(plan: ScalePlan, axis: str) -> float:
    """x of the longest run, of the model in the middle, of all the data."""
    return float({"minutes": plan.steps, "size": plan.parameters, "data": plan.text["tokens"]}[axis])


def points_of(plan: ScalePlan, records: Sequence[Record], axis: str, quantity: str) -> list[tuple[float, float]]:
    """x and value of the runs that differ from the longest one along this axis only."""
    middle = {"minutes": ("steps", plan.steps), "size": ("parameters", plan.parameters), "data": ("share", 1.0)}
    name, _ = middle.pop(axis)
    own = [record for record in records if all(record[key] == value for key, value in middle.values())]
    unit = plan.text["tokens"] if axis == "data" else 1.0
    return sorted((unit * record[name], record[quantity]) for record in own)


def forecast_axis(
    axis: str, quantity: str, points: list[tuple[float, float]], here: float, noise: float | None = None
) -> AxisForecast:
    """Fit one quantity along one axis, and predict it at ten times `here`."""
    prior = LENGTHS if axis == "minutes" else OTHERS
    law = fit_power_law([x for x, _ in points], [shortfall(quantity, y) for _, y in points], noise, prior)
    now = [y for x, y in points if x == here]
    first, last = points[0][0], AHEAD * here
    places = [first * (last / first) ** (n / (CURVE - 1)) for n in range(CURVE)]
    return AxisForecast(
        axis, quantity, points, here, sum(now) / len(now), as_value(quantity, law.predict(last)),
        as_value(quantity, between(law.floor)), float(np.median(law.alpha)),
        [(x, as_value(quantity, law.curve(x))) for x in places])
