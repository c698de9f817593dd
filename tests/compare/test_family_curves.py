"""Curves of a report: a style a family, and black for what is counted."""

from types import SimpleNamespace

from regard.compare.family_curves import draw_figure, family_colour, family_line, styles
from regard.report.charts import BLACK, Chart


def plan_of(trained):
    named = [("ngram", True), *((f"f{n}", False) for n in range(trained))]
    return SimpleNamespace(entries=[SimpleNamespace(family=family, counted=counted) for family, counted in named])


def test_more_families_than_colours_have_styles_of_their_own_and_none_is_black():
    for count in (0, 1, 8, 20):
        plan = plan_of(count)
        assert len(set(styles(plan).values())) == count + 1
        assert [name for name in styles(plan) if family_colour(plan, name) == BLACK] == ["ngram"]


def test_a_figure_leaves_out_what_has_no_points():
    plan = plan_of(2)
    chart = Chart("t", "x", "y", [family_line(plan, "f0", []), family_line(plan, "f1", [(1, 2.0), (2, 1.0)])])
    drawn = draw_figure(chart, "below")
    assert 'alt="t. f1: 2 at 1, 1 at 2."' in drawn and "below</figcaption>" in drawn
    assert "nothing to plot" in draw_figure(Chart("t", "x", "y", chart.lines[:1]), "below")
