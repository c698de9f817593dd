"""Charts and tables: every number in its own column, colours that can be told apart, and spread that hides nothing."""

import warnings

import numpy as np
import pytest

from regard.report import charts
from regard.report.charts import (
    BANDS,
    COLOURS,
    DASHES,
    HATCHES,
    MARKS,
    Chart,
    Line,
    describe_lines,
    draw,
    hash_drawing,
    list_places,
    rows_of,
    style_of,
)


def chart(count=3, **more):
    lines = [Line(f"line {at}", [1, 2, 4], [[1 + at, 2, 3], [1 + at, 3, 3]]) for at in range(count)]
    return Chart(**{"title": "t", "x": "x", "y": "y", "lines": lines, **more})


# ----------------------------------------------------------------------------------------------- the table


def puts_numbers_in_their_columns():
    lines = [Line("short", [2, 4], [[20, 40]]), Line("long", [1, 2, 3.5, 8], [[10, 20, 35, 80], [10, 20, 35, 90]])]
    columns, rows = rows_of([chart(lines=lines)])
    assert columns == ["", "1", "2", "3.5", "4", "8"]
    assert rows == [["short", "", "20", "", "40", ""], ["long", "10", "20", "35", "", "85 (80–90)"]]


def test_lines_with_different_places_have_empty_cells_where_they_have_none():
    puts_numbers_in_their_columns()
    names = [Line("a", ["one", "two"], [[1, 2]]), Line("b", ["two", "three"], [[2, 3]])]
    assert rows_of([chart(lines=names, kind="bars")])[1] == [["a", "1", "2", ""], ["b", "", "2", "3"]]
    assert rows_of([]) == ([], [])


def test_columns_of_the_first_line_alone_would_be_seen(monkeypatch):
    monkeypatch.setattr(charts, "list_places", lambda lines: list(lines[0].x))
    with pytest.raises(AssertionError):
        puts_numbers_in_their_columns()


def test_places_are_numbers_in_order_or_names_as_they_come():
    assert list_places([Line("a", [4, 16], []), Line("b", [1, 4], [])]) == [1, 4, 16]
    assert list_places([Line("a", ["late"], []), Line("b", ["early", "late"], [])]) == ["late", "early"]


# ------------------------------------------------------------------------------------------------- the picture


def parts(drawn, monkeypatch):
    """What was put on the axes: how many bands, whiskers and bars, and where each line's points are."""
    seen = {"fill_between": 0, "errorbar": 0, "bar": 0, "plot": []}
    from matplotlib.axes import Axes

    def spy(name):
        own = getattr(Axes, name)

        def call(self, *arguments, **options):
            if name == "plot" and "label" in options:
                seen["plot"].append(np.asarray(arguments[0], float))
            elif name != "plot":
                seen[name] += 1
            return own(self, *arguments, **options)

        monkeypatch.setattr(Axes, name, call)

    for name in seen:
        spy(name)
    assert draw(drawn, "png").startswith(b"\x89PNG")
    return seen


def test_few_lines_have_bands(monkeypatch):
    seen = parts(chart(BANDS), monkeypatch)
    assert (seen["fill_between"], seen["errorbar"]) == (BANDS, 0)
    assert all((x == [1, 2, 4]).all() for x in seen["plot"])


@pytest.mark.parametrize("log_x", [False, True])
def test_many_lines_have_whiskers_side_by_side_and_in_order(monkeypatch, log_x):
    seen = parts(chart(9, log_x=log_x), monkeypatch)
    assert (seen["fill_between"], seen["errorbar"]) == (0, 9)
    at = np.array(seen["plot"])                                            # (9 lines, 3 places)
    assert (np.diff(at, axis=0) > 0).all() and np.abs(at[4] - [1, 2, 4]).max() < 1e-12
    assert (at[-1, :-1] < at[0, 1:]).all()                                 # those of one place stay together


def test_many_lines_of_one_seed_each_stay_in_their_places(monkeypatch):
    seen = parts(chart(lines=[Line("a" * (not n), [1 + n, 2, 40 + n], [[3, 2, 1]], 0) for n in range(9)]), monkeypatch)
    assert seen["errorbar"] == 0 and [x[0] for x in seen["plot"]] == list(range(1, 10))


def test_points_from_a_place_on_are_open_and_joined_by_dots():
    whole, cut = (draw(chart(lines=[Line("a", [1, 2, 3, 4], [[4, 3, 2, 1]], open_from=place)])) for place in (None, 2))
    assert b"fill: #ffffff; stroke: #0072b2" in cut and b"fill: #ffffff; stroke: #0072b2" not in whole
    assert draw(chart(lines=[Line("a", [5], [[5]], open_from=0)], log_x=True, log_y=True))


def test_a_chart_is_told_to_those_who_do_not_see_it():
    lines = [Line("a<b", [1, 2], [[2.0, 1.0]]), Line("", [1, 2], [[3.0, 1.0]]), Line("c", [1, 4], [[3, 1], [3, 2]])]
    assert describe_lines(chart(lines=lines)) == "t. a<b: 2 at 1, 1 at 2. c: 3 at 1, 1.5 at 4."


def test_bars_on_a_logarithmic_axis_are_marks(monkeypatch):
    assert parts(chart(2, kind="bars"), monkeypatch)["bar"] == 2
    assert parts(chart(2, kind="bars", log_y=True), monkeypatch)["bar"] == 0


@pytest.mark.parametrize("kind", ["lines", "bars"])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_numbers_that_are_not_finite_are_drawn_without_a_warning(kind, count):
    lines = [Line(f"{at}", [1, 2, 3], [[1, 2, np.inf], [1.5, np.nan, 3]]) for at in range(count)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = draw(chart(lines=lines, kind=kind, levels=[("chance", 1)]))
    assert plain != draw(chart(lines=[Line(each.name, [1], [[1], [1.5]]) for each in lines], kind=kind))


def test_the_hash_of_a_drawing_follows_its_numbers():
    assert hash_drawing(chart(3)) == hash_drawing(chart(3)) != hash_drawing(chart(2))


# ------------------------------------------------------------------------------------------- without colour


def test_every_line_has_a_colour_dashes_a_mark_and_a_hatch_of_its_own():
    for each in (COLOURS, DASHES, MARKS, HATCHES):
        assert len(each) == len(set(each)) == 9
    styles = [style_of(Line("a", [], [], style), 0)[:2] for style in range(2 * len(COLOURS))]
    assert len(set(styles)) == len(styles)                                 # past the last colour too


def light(colour):
    """Relative luminance, as contrast is defined by (WCAG 2)."""
    parts = np.array([int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)])
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("colour", COLOURS)
def test_a_line_stands_out_from_the_white_behind_it(colour):
    assert 1.05 / (light(colour) + 0.05) > 2


# ------------------------------------------------------------------------------------- bands, points


def test_a_line_may_have_a_band_of_its_own_and_points_may_stand_alone():
    band = Line("fitted", [1, 2], [[3.0, 2.0]], band=[[2.0, 1.0], [5.0, 4.0]])
    assert [each.tolist() for each in charts._spread(band)] == [[3.0, 2.0], [2.0, 1.0], [5.0, 4.0]]
    one = Line("one", [4], [[1.5]], band=[[1.0], [2.0]])
    points = Line("runs", [1, 1, 2], [[3.0, 3.2, 2.1]], joined=False)
    plain, joined = (draw(chart(lines=[band, one, each])) for each in (points, Line("runs", [1, 1, 2], points.y)))
    assert plain != joined and b"<svg" in plain
