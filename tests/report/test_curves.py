import re

from regard.report.curves import COLOURS, SHAPES, Axis, Curve, colour_of, plot, shape_of, show_tick, spread


def test_an_axis_lays_values_along_pixels():
    assert Axis(0, 10, 100, 200).at(5) == 150
    assert Axis(1, 100, 0, 200, log=True).at(10) == 100
    assert Axis(0, 10, 0, 1).ticks() == [0, 2, 4, 6, 8, 10]
    assert Axis(1, 1000, 0, 1, log=True).ticks() == [1, 10, 100, 1000]
    assert Axis(30, 400, 0, 1, log=True).ticks() == [50, 100, 200]


def test_numbers_are_short():
    assert [show_tick(value) for value in (0.002, 1.5, 20_000, 3e6)] == ["0.002", "1.5", "20k", "3M"]


def test_labels_are_moved_apart_and_stay_inside():
    assert spread([10, 11, 12], 15, 0, 100) == [10, 25, 40]
    assert spread([98, 99, 100], 15, 0, 100) == [70, 85, 100]
    assert spread([10, 60], 15, 0, 100) == [10, 60]


def test_a_plot_names_its_lines_draws_them_and_tells_them_to_those_who_cannot_see():
    lines = [Curve("a<b", [(1, 2.0), (2, 1.0)], 0), Curve("c", [(1, 3.0), (2, 2.0), (4, 1.5)], 1, open_from=2)]
    drawn = plot(lines, title="Loss", x="time", y="bits", level=("n-gram", 1.2))
    assert drawn.count("<polyline") == 3 and drawn.count("stroke-dasharray") == 1       # the open part is broken
    assert 'class="hollow"' in drawn and 'class="level"' in drawn
    assert "a&lt;b" in drawn and "a<b" not in drawn
    assert re.search(r'role="img" aria-label="Loss\. a&lt;b: 2 at 1, 1 at 2\.', drawn)


def test_nothing_and_a_single_point_can_be_plotted():
    assert "nothing to plot" in plot([Curve("a", [])], title="t", x="x", y="y")
    for log in (False, True):
        assert "<circle" in plot([Curve("a", [(5, 5)])], title="t", x="x", y="y", log_x=log, log_y=log)


def test_more_families_than_colours_can_still_be_told_apart():
    styles = {(colour_of(n), shape_of(n)) for n in range(2 * len(COLOURS))}
    assert len(styles) == 2 * len(COLOURS) and len(SHAPES) == 4
