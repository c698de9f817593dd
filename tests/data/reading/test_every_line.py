"""Every line comes, in order, as it is written; what is no text is named by its line."""

import gzip
import io
import sys

import pytest

from regard.data.reading.readers import every_line
from regard.data.reading.two_fields import LONGEST
from regard.errors import DataError


@pytest.mark.parametrize(("raw", "lines"), [
    (b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\n\n b \n", ["a", "", " b "]), (b"a\r\nb\r\n", ["a", "b"]),
    ("\ufeffété\u2028x\x0cy\n".encode(), ["été\u2028x\x0cy"]), (b"a\x00b\n", ["ab"])])
def test_lines_end_at_newlines_and_nowhere_else(tmp_path, monkeypatch, raw, lines):
    (tmp_path / "text").write_bytes(raw)
    (tmp_path / "text.gz").write_bytes(gzip.compress(raw))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert list(every_line(str(tmp_path / "text"))) == list(every_line(str(tmp_path / "text.gz"))) == lines
    assert list(every_line("-")) == lines


@pytest.mark.parametrize(("raw", "message"), [
    (b"a\nb\xe9\n", "line 2, byte 2 \\(0xe9\\) is not UTF-8"), (b"\xff\xfea\x00", "is UTF-16"),
    (b"a\n" + b"x" * (LONGEST + 5), "line 2 is longer than"), (b"\x00\x01\xff\x00\x00\n", "looks binary")])
def test_what_is_no_line_of_text_is_named(tmp_path, raw, message):
    (tmp_path / "text").write_bytes(raw)
    with pytest.raises(DataError, match=message):
        list(every_line(str(tmp_path / "text")))


def test_lines_before_a_bad_one_come_first_and_it_may_be_mended(tmp_path):
    (tmp_path / "text").write_bytes(b"a\nb\xe9\nc\n")
    coming = every_line(str(tmp_path / "text"))
    assert next(coming) == "a"
    assert list(every_line(str(tmp_path / "text"), "replace")) == ["a", "b\ufffd", "c"]


def test_only_one_file_of_lines_is_read(tmp_path):
    (tmp_path / "pairs.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="is not a file of lines"):
        list(every_line(str(tmp_path / "pairs.jsonl")))
    with pytest.raises(DataError, match="does not exist"):
        list(every_line(str(tmp_path / "absent")))
