"""Whatever names others chose, a mistake is one line of bearable length, without control characters."""

import json
import warnings

import pytest

from regard.errors import LONGEST_LINE, RegardNote, note, one_line

EVIL = "te\x1b]0;owned\x07xt\r\x9b31m\u202egnp.exe\nregard: all is well"


def test_a_message_is_one_line_without_control_characters():
    shown = one_line(f"unknown setting {EVIL}")
    assert shown.isprintable() and "\\x1b]0;owned\\x07" in shown and "\\u202e" in shown
    assert one_line("d’été – 漢字 👩‍🔬 \u200c") == "d’été – 漢字 👩‍🔬 \u200c"
    assert one_line("half \udcff") == "half \\udcff"


def test_an_endless_message_keeps_its_beginning_and_its_cure():
    shown = one_line(f"there is no column {'x' * 10**7}: name the right one")
    assert len(shown) <= LONGEST_LINE and shown.startswith("there is no column xxx")
    assert shown.endswith("xxx: name the right one")


def assert_clean(line, also=""):
    assert line.isprintable() and len(line) < LONGEST_LINE + 10 and also in line, line[:3000]


def test_names_of_settings_fields_and_columns_are_shown(regard, here):
    assert_clean(regard("train", "lm", "text.txt", "--set", f"model.{EVIL}=1").mistake(), "x1b]0;owned")
    (here / "rows.jsonl").write_text(json.dumps({EVIL: "a", "x" * 10**7: "b"}) + "\n")
    assert_clean(regard("train", "lm", "rows.jsonl").mistake())
    assert_clean(regard("train", "translate", "rows.jsonl").mistake())
    assert_clean(regard("train", "lm", "text.txt", "--family", EVIL).mistake())
    assert_clean(regard("score", EVIL, "text.txt").mistake())


def test_columns_of_parquet_are_shown(regard, here):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.table({EVIL: ["a"], "x" * 10**6: ["b"]}), here / "rows.parquet")
    assert_clean(regard("train", "lm", "rows.parquet").mistake())


def test_usage_and_notes_are_shown_as_well(regard, capfd):
    from regard.cli import show_notes

    told = regard("train", "lm", f"--{EVIL}")
    assert told.code == 2 and "\x1b" not in told.err and "\x07" not in told.err
    with warnings.catch_warnings():
        warnings.simplefilter("always", RegardNote)
        show_notes()
        note(EVIL)
    assert_clean(capfd.readouterr().err.removesuffix("\n"), "note: ")
