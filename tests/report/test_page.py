"""A page and its tables: text is escaped, Markup is not, and what is short says why over the columns that are left."""

import re

from regard.report.page import Markup, bullets, facts, figure, folded, grid, page, section, visible
from regard.report.tables import Cell, html_table, markdown_table, rich_table, text_table

HEADINGS = (("family",), ("bits",), ("training", "tokens/s"))
ROWS = [["rnn", "2.1", "1,000"], ["a|b", "failed: no memory", ""]]


def test_a_page_needs_nothing_else_and_adds_its_own_style():
    made = page("a < b", ["<h1>x</h1>"], "p { color: red; }")
    assert made.startswith("<!doctype html>") and "<title>a &lt; b</title>" in made and made.endswith("</html>\n")
    assert "prefers-color-scheme: dark" in made and "p { color: red; }</style>" in made
    assert not re.search(r"(src|href)\s*=|@import|url\(|<script", made)


def test_text_is_escaped_and_markup_is_not():
    assert section("<", "<p>") == "<section><h2>&lt;</h2>\n<p></section>"
    assert bullets(["<", Markup("<b>")], "notes") == '<ul class="notes"><li>&lt;</li><li><b></li></ul>'
    assert facts({"a": "<", "none": ""}) == "<dl><dt>a</dt><dd>&lt;</dd></dl>"
    assert folded("<", "<p>") == "<details><summary>&lt;</summary><p></details>"
    assert grid(["<p>"]) == '<div class="grid">\n<p>\n</div>'
    assert figure(b"<svg/>", '"', "<") == (
        '<figure><img alt="&quot;" src="data:image/svg+xml;base64,PHN2Zy8+"><figcaption>&lt;</figcaption></figure>')
    assert visible("a\x00<") == "a�&lt;"


def test_a_table_scrolls_in_a_region_with_a_name():
    made = html_table(("<", ("b", "c")), [[1, Markup("<i>")]], label='"l"', kind="k", row_kinds=["best"])
    assert made == (
        '<div class="scroll" tabindex="0" role="region" aria-label="&quot;l&quot;"><table class="k"><thead><tr>'
        '<th scope="col">&lt;</th><th scope="col">b<br>c</th></tr></thead><tbody><tr class="best"><td>1</td>'
        "<td><i></td></tr></tbody></table></div>")


def test_a_short_row_says_why_in_the_columns_that_are_left():
    made = html_table(("a", "b", "c"), [[Cell("x", heading=True, title="y"), "failed"]], label="l")
    assert '<tr><th scope="row" title="y">x</th><td class="failed" colspan="2">failed</td></tr>' in made


def test_a_table_without_headings_has_none():
    made = html_table((), [["a", "b"]], label="l")
    assert "<thead>" not in made and "failed" not in made


def test_one_table_is_written_as_text_and_as_markdown():
    assert text_table(HEADINGS, ROWS).splitlines() == [
        "              training", "family  bits  tokens/s", "──────  ────  ────────", "rnn     2.1      1,000",
        "a|b     failed: no memory"]
    assert markdown_table(HEADINGS, ROWS).splitlines()[0::2] == [
        "| family | bits | training tokens/s |", "| rnn | 2.1 | 1,000 |"]
    assert "a\\|b" in markdown_table(HEADINGS, ROWS)
    assert [column.header for column in rich_table(HEADINGS, ROWS).columns] == ["family", "bits", "training\ntokens/s"]
