"""The page of `regard scale`: a table, a sentence for each axis, a chart for each, and one page with all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from regard.compare.subject import subject_of
from regard.report.charts import Chart, Line, describe_lines, draw
from regard.report.numbers import shorten, show_seconds
from regard.report.page import bullets, figure, grid, page, section
from regard.report.tables import html_table, text_table
from regard.scale.forecast import AxisForecast, ScaleForecast, has_not_begun, points_of
from regard.scale.ladder import AHEAD, Rung, ScalePlan
from regard.scale.power_law import LEVEL, Interval
from regard.scale.rung_run import quantities

NAMES = {"minutes": "minutes", "size": "parameters", "data": "data"}         # as in "ten times the ..."
UNITS = {"minutes": "steps", "size": "parameters", "data": "tokens"}         # of x
WIDE = 0.03                                  # of the loss, to either side: a wider interval says little
HEADINGS = (("ten times the",), ("of",), ("", "now"), ("", "then"), (f"{LEVEL:.0%}", "interval"), ("", "gain"))


def show_value(quantity: str, value: float) -> str:
    return f"{value:.3f}" if quantity == "loss" else f"{value:.1f}"


def show_interval(quantity: str, interval: Interval) -> str:
    return f"{show_value(quantity, interval.low)} to {show_value(quantity, interval.high)}"


def name_quantity(forecast: ScaleForecast, quantity: str) -> str:
    return "loss" if quantity == "loss" else subject_of(forecast.plan.request["task"]).metric_name


def list_rows(forecast: ScaleForecast) -> list[list[str]]:
    """The table: one row an axis and quantity."""
    return [[NAMES[each.axis], name_quantity(forecast, each.quantity), show_value(each.quantity, each.now),
             show_value(each.quantity, each.more.median), show_interval(each.quantity, each.more), f"{each.gain:.1%}"]
            for each in forecast.axes]


def tell_axes(forecast: ScaleForecast) -> list[str]:
    """A sentence for each axis, and which of them pays most."""
    lines = []
    for each in forecast.axes:
        lines.append(f"ten times the {NAMES[each.axis]}: {name_quantity(forecast, each.quantity)} "
                     f"{show_value(each.quantity, each.more.median)} ({show_interval(each.quantity, each.more)}), "
                     f"from {show_value(each.quantity, each.now)}")
    for quantity in quantities(subject_of(forecast.plan.request["task"])):
        lengths = points_of(forecast.plan, forecast.records, "minutes", quantity)
        if has_not_begun(quantity, lengths):
            shown = show_value(quantity, lengths[-1][1])
            lines.append(f"{name_quantity(forecast, quantity)} is {shown} yet: too early to say where it goes; more "
                         "--minutes help")
    losses = [each for each in forecast.axes if each.quantity == "loss"]
    return [*lines, *tell_best(losses), *tell_width(losses)]


def tell_width(axes: list[AxisForecast]) -> Iterator[str]:
    """A line where the interval of longer runs is too wide to rely on."""
    for each in axes:
        if each.axis == "minutes" and each.more.half_width > WIDE:
            yield (f"the interval of ten times the minutes is wide ({each.more.half_width:.0%} to either side): these "
                   "runs are too short to say more, and more --minutes narrow it")


def tell_best(axes: list[AxisForecast]) -> Iterator[str]:
    """The axis that lowers the loss most, and whether the intervals tell it from the next one."""
    if len(axes) < 2:
        return
    first, second, *_ = sorted(axes, key=lambda each: each.more.median)
    if min(each.more.median for each in axes) >= min(each.now for each in axes):
        yield "none of them lowers the loss"
        return
    doubt = "" if first.more.high < second.more.low else f" (its interval overlaps that of {NAMES[second.axis]})"
    yield f"what pays most: {NAMES[first.axis]}{doubt}"


def as_text(forecast: ScaleForecast) -> str:
    """The table and the sentences, for a terminal."""
    return "\n".join([text_table(HEADINGS, list_rows(forecast)), "", *tell_axes(forecast)])


# ------------------------------------------------------------------------------------------------ charts


def make_chart(forecast: ScaleForecast, each: AxisForecast) -> Chart:
    name = name_quantity(forecast, each.quantity)
    x, bands = [place for place, _ in each.curve], [interval for _, interval in each.curve]
    fitted = Line(f"fitted, with its {LEVEL:.0%} band", x, [[band.median for band in bands]], 0,
                  band=[[band.low for band in bands], [band.high for band in bands]])
    measured = Line("runs", [place for place, _ in each.points], [[value for _, value in each.points]], 1, joined=False)
    more = Line("one run of ten times more", [AHEAD * each.here], [[each.more.median]], 2,
                band=[[each.more.low], [each.more.high]])
    return Chart(f"Ten times the {NAMES[each.axis]}", UNITS[each.axis],
                 f"held-out {name}" + (" (nats a token)" if each.quantity == "loss" else ""), [fitted, measured, more],
                 log_x=True)


def draw_charts(forecast: ScaleForecast) -> dict[str, bytes]:
    """The file of each chart by its name, as SVG and as PNG."""
    return {f"{each.axis}-{each.quantity}.{kind}": draw(make_chart(forecast, each), kind)
            for each in forecast.axes for kind in ("svg", "png")}


# -------------------------------------------------------------------------------------------------- page


def make_page(forecast: ScaleForecast, charts: Mapping[str, bytes]) -> str:
    """The page, as HTML that needs nothing else."""
    request = forecast.plan.request
    title = f"What ten times more would give: {', '.join(request['files'])}"
    drawn = grid(figure(charts[f"{each.axis}-{each.quantity}.svg"], describe_lines(make_chart(forecast, each)),
                        tell_law(forecast, each)) for each in forecast.axes)
    rows = [[record["steps"], record["parameters"], f"{record['share']:g}", record["seed"],
             *(show_value(name, record[name]) for name in dict.fromkeys(each.quantity for each in forecast.axes)),
             show_seconds(record["seconds"])] for record in forecast.records]
    names = dict.fromkeys(name_quantity(forecast, each.quantity) for each in forecast.axes)
    return page(title, [
        f"<h1>{escape(title)}</h1>", bullets(tell_axes(forecast)),
        html_table([heading[-1] if not heading[0] else " ".join(heading).strip() for heading in HEADINGS],
                   list_rows(forecast), label="What ten times more would give"),
        section("The fits", drawn), section("How the interval is made", *tell_method(forecast.plan)),
        section("Every run", html_table(("steps", "parameters", "share of the data", "seed", *names, "took"), rows,
                                        label="Every run"))])


def tell_law(forecast: ScaleForecast, each: AxisForecast) -> str:
    name = name_quantity(forecast, each.quantity)
    return (f"The exponent is {each.alpha:.2f}; the {name} ends at {show_value(each.quantity, each.floor.median)} "
            f"({show_interval(each.quantity, each.floor)}). The band is of the mean of runs; the last mark is one run.")


def tell_method(plan: ScalePlan) -> Iterator[str]:
    seconds = plan.step_seconds.get(str(plan.parameters))
    longest = f"{plan.steps:,} steps" + (f" ({show_seconds(seconds * plan.steps)})" if seconds else "")
    yield (f"<p>Every run has the same settings and a full schedule of its own; the longest has {longest}, "
           f"{Rung(plan.steps, plan.parameters, 1.0, 0).parameters:,} parameters and {shorten(plan.text['tokens'])} "
           "tokens to learn from. More parameters and more data are at the same number of steps.</p>")
    yield ("<p>L(x) = E + A x<sup>-alpha</sup> is fitted in log space. The interval has the noise between seeds, what "
           "the runs leave open of E, A and alpha, and a drift for what no power law knows, which grows with each "
           "doubling of x. A score is fitted as what is missing to 100.</p>")
