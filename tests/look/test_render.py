"""Drawing: every form of a map, whatever its pieces hold, and the same bytes each time."""

import io
import json
import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from regard import storage
from regard.errors import DataError, SettingError, StorageError
from regard.look.render import FORMS, save, show
from regard.look.render.colours import between, ink_on
from regard.look.render.labels import fitted, graphemes, visible
from regard.look.render.maps import Map
from regard.look.render.terminal import plain

HOSTILE = ["</script><img src=x onerror=alert(1)>", "日本語", "👩‍👩‍👧", "e\u0301t", "שלום", "a\x1b[31mb", "\n", " the",
           "$x^2$", "\u202eabc", "", "<!--", "]]>", "{data}", "&amp;", "\ud800", "\uffff", "🇫🇷", "\u2028", "long" * 40]


def random_map(rows, columns, seed=0, **options):
    weights = np.random.default_rng(seed).dirichlet(np.full(len(columns), 0.3), (2, 3, len(rows)))
    return Map(rows, columns, weights, **options)


HARD = random_map(HOSTILE, HOSTILE[::-1], title="<script>alert(1)</script>", links={(0, 0), (3, 5)})
CAT = Map(["the", "black", "cat"], ["le", "chat", "noir"], [[0.9, 0.05, 0.05], [0, 0.2, 0.8], [0.1, 0.9, 0]],
          title="le chat noir", row_title="English", column_title="French", links={(0, 0), (1, 2), (2, 1)})
SIGNED = Map("ab", "xy", [[1.0, -0.5], [0.0, 0.01]], signed=True, kind="influence")
EMPTY = Map([], ["a"], np.zeros((0, 1)))


# ----------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(("piece", "shown"), [
    (" the", "␣the"), ("  ", "␣␣"), ("", "∅"), ("a b", "a b"), ("\x1b[31m", r"\x1b[31m"), ("a\n", r"a\n"),
    ("\u202eabc", r"\u202eabc"), ("\ud800", r"\ud800"), ("\uffff", r"\uffff"), ("é", "é"),
    ("می\u200cخواهم", "می\u200cخواهم")])
def test_nothing_in_a_piece_is_hidden(piece, shown):
    assert visible(piece) == shown


def test_what_a_reader_takes_for_one_character_stays_together():
    assert list(graphemes("e\u0301👩‍👩‍👧🇫🇷🇬🇧👍🏽a")) == ["e\u0301", "👩‍👩‍👧", "🇫🇷", "🇬🇧", "👍🏽", "a"]
    assert fitted("日本語です", 5) == "日本…" and fitted("e\u0301te", 3) == "e\u0301te"


# --------------------------------------------------------------------------------------------- terminal


def test_a_small_map_on_the_terminal():
    assert plain(CAT) == """\
le chat noir · English down, French across

          c  n
          h  o
       l  a  i
       e  t  r
  the ██•░░░░░░
black    ▒▒▒██•
  cat ░░░██•

weights: each row sums to 1 · from ░ 0.016  ▒ 0.14  ▓ 0.39  █ 0.77 · • gold link
"""


def test_below_zero_has_a_minus():
    lines = plain(SIGNED).split("\n")
    assert lines[3:5] == ["a  ██-▓▓", "b"] and "strongest at ±1" in lines[6] and "- below zero" in lines[6]


@pytest.mark.parametrize("width", [10, 30, 72, 200])
@pytest.mark.parametrize("seen", [CAT, HARD, SIGNED, EMPTY, random_map(["w"] * 3, [f"mot{n}" for n in range(120)])])
def test_no_line_is_wider_than_the_terminal(seen, width):
    for line in plain(seen, width).split("\n"):
        assert cell_len(line) <= max(width, 20)
        assert not re.search(r"[\x00-\x1f\u202e]", line)


def test_cells_stand_below_their_labels_whatever_the_script():
    seen = Map(["漢字", "e\u0301", "مرحبا"], ["日", "👍🏽", "ש"], np.eye(3))
    header, *rows = plain(seen).split("\n")[2:6]
    assert {cell_len(row[:row.index("█")]) - start for start, row in zip((0, 2, 4), rows, strict=True)} == {6}
    assert cell_len(header[:header.index("日")]) == 6 and cell_len(header[:header.index("👍")]) == 8
    assert rows[2].lstrip().startswith("\u200e\u2068")              # right to left, and the rest of the line is not


def test_long_names_get_numbers_and_a_key():
    told = plain(Map("a", ["x", "anticonstitutionnellement"], [[0.5, 0.5]]))
    assert "0 x · 1 anticonstitutionnellement" in told and "\n  0 1\n" in told


def printed(seen, **options):
    file = io.StringIO()
    show(seen, Console(file=file, width=60, **options))
    return file.getvalue()


def test_colour_only_where_there_is_some(monkeypatch):
    assert "\x1b[" not in printed(CAT) and "██•" in printed(CAT)                   # a pipe
    coloured = printed(CAT, force_terminal=True, color_system="truecolor")
    assert "48;2;" in coloured and "90•" in coloured and "█" not in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "48;2;" not in printed(CAT, force_terminal=True) and "██•" in printed(CAT, force_terminal=True)


def test_ink_can_be_read_on_every_colour():
    def light(colour):
        parts = [int(colour[n:n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    for step in range(101):
        back = between(("#14181d", "#7d7a6d", "#fee838"), step / 100)
        bright, dark = sorted((light(back), light(ink_on(back))), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5


# ---------------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize("form", [".png", ".svg"])
@pytest.mark.parametrize("maps", [[CAT], [HARD], [SIGNED, EMPTY]], ids=["cat", "hard", "two"])
def test_a_picture_is_the_same_each_time_and_warns_of_nothing(form, maps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = FORMS[form](maps)
    assert first == FORMS[form](maps)
    assert first.startswith(b"\x89PNG" if form == ".png" else b"<?xml")


def test_text_stays_text_in_an_svg_and_nothing_of_it_is_markup():
    drawn = FORMS[".svg"]([HARD])
    tree = ElementTree.fromstring(drawn)
    texts = {"".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert {"日本語", "$x^2$", "&amp;", r"\uffff", "␣the", "</script><img src=x one…", "long" * 5 + "lon…"} <= texts
    assert not [node for node in tree.iter() if node.tag.endswith(("script", "}img"))] and b"<dc:date" not in drawn


def test_drawing_leaves_no_plotting_state_behind():
    asked = """
import sys, matplotlib, numpy as np
matplotlib.rcParams["font.size"] = 31
settings = lambda: dict(dict.items(matplotlib.rcParams))           # asking for "backend" would import pyplot
before = settings()
from regard.look.render.maps import Map
from regard.look.render import FORMS
FORMS[".png"]([Map("ab", "xy", np.eye(2))])
print("matplotlib.pyplot" in sys.modules, before == settings())
"""
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True"] and not told.stderr


def test_a_picture_of_a_long_sentence_has_all_its_words():
    words = [f"w{n}" for n in range(60)]
    drawn = FORMS[".svg"]([random_map(words, words)]).decode()
    assert all(len(re.findall(f">{word}<", drawn)) == 2 for word in words)


# ---------------------------------------------------------------------------------------------- saving


@pytest.mark.parametrize("form", FORMS)
def test_the_ending_says_how(form, tmp_path):
    path = save(CAT, tmp_path / "new" / f"map{form.upper()}")
    assert path.stat().st_size > 100 and [each.name for each in path.parent.iterdir()] == [path.name]


def test_json_keeps_everything(tmp_path):
    told = json.loads(save([CAT, HARD], tmp_path / "maps.json").read_text())["maps"]
    again = Map(**{**told[1], "links": [tuple(link) for link in told[1]["links"]]})
    assert again.rows == HARD.rows and again.links == HARD.links
    np.testing.assert_array_equal(again.weights, HARD.weights)


@pytest.mark.parametrize(("name", "message"), [
    ("map.jpg", r"ends in '.jpg': a map can be written as .png, .svg, .html, .txt, .json"), ("map", "has no ending")])
def test_an_unknown_ending_is_said(tmp_path, name, message):
    with pytest.raises(SettingError, match=message):
        save(CAT, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_too_much_is_said(monkeypatch, tmp_path):
    with pytest.raises(SettingError, match=r"13 maps do not fit in one picture, which holds 12: write them to .html"):
        save([CAT] * 13, tmp_path / "map.png")
    monkeypatch.setattr("regard.look.render.saved_page.MOST_NUMBERS", 8)
    with pytest.raises(SettingError, match="9 weights do not fit in one page, which holds 8"):
        save(CAT, tmp_path / "map.html")
    with pytest.raises(DataError, match="there is no map to write"):
        save([], tmp_path / "map.html")


def test_a_picture_without_matplotlib_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SettingError, match=r"a picture needs matplotlib: pip install matplotlib"):
        save(CAT, tmp_path / "map.svg")


def test_a_write_that_fails_leaves_the_old_file(monkeypatch, tmp_path):
    path = save(CAT, tmp_path / "map.txt")
    before = path.read_bytes()

    def fail(operation, _path):
        if operation == "rename":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "before_operation", fail)
    with pytest.raises(StorageError, match="the disk is full"):
        save(HARD, path)
    assert path.read_bytes() == before
