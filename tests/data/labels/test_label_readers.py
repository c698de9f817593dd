"""Labelled texts from tables and JSON lines: what is read, what is counted, what is refused."""

import gzip

import pytest

from regard.data.labels.labelled_texts import OF_TEXTS, LabelSettings, read_labelled
from regard.data.reading.tally import Tally
from regard.errors import DataError, SettingError


def read(path, **settings):
    tally = Tally()
    pairs = list(read_labelled(LabelSettings((str(path),), **settings), OF_TEXTS, tally))
    return [tuple(pair) for pair in pairs], tally


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


EXPECTED = [("pos", "good film"), ("neg", "dull, long")]


@pytest.mark.parametrize(("name", "text"), [
    ("a.tsv", "pos\tgood film\nneg\tdull, long\n"),
    ("a.tsv", "pos\tgood film\r\nneg\tdull, long"),
    ("a.tsv", "text\tid\tlabel\ngood film\t1\tpos\ndull, long\t2\tneg\n"),
    ("a.csv", 'label,text\npos,good film\nneg,"dull, long"\n'),
    ("a.csv", 'id,text,label\n1,good film,pos\n2,"dull,\nlong",neg\n'),
    ("a.jsonl", '{"label": "pos", "text": "good film"}\n\n{"text": "dull, long", "label": "neg", "id": 2}\n'),
    ("a.ndjson", '{"label": "pos", "text": "good film"}\n{"text": "dull, long", "label": "neg"}\n'),
])
def test_every_format_gives_the_same_texts(tmp_path, name, text):
    assert read(write(tmp_path, name, text))[0] == EXPECTED


def test_a_packed_table_is_read_and_other_columns_can_be_named(tmp_path):
    packed = write(tmp_path, "a.csv.gz", gzip.compress(b"stars,review\n5,good film\n1,dull\n"))
    assert read(packed, label="stars", text="review")[0] == [("5", "good film"), ("1", "dull")]


def test_a_label_may_be_a_number_in_json(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"label": 1, "text": "a"}\n{"label": false, "text": "b"}\n')
    assert read(path)[0] == [("1", "a"), ("false", "b")]


def test_every_line_is_counted(tmp_path):
    path = write(tmp_path, "a.tsv", b"pos\ta\npos\ta\n\nneg\t \nbad \xff\tb\nno tab\nneg\tb\n")
    pairs, tally = read(path, on_bad_text="drop")
    assert pairs == [("pos", "a"), ("neg", "b")]
    assert tally.line() == ("7 texts read: 2 kept, 5 dropped (1 bad UTF-8, 1 duplicate, 2 empty label or text, "
                            "1 wrong number of columns)")
    assert read(path, on_bad_text="drop", drop_duplicates=False)[1].kept == 3


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.tsv", "pos\ta\nno tab\n", r"a\.tsv line 2 has no tab: a \.tsv line is a label, a tab and a text; mend it"),
    ("a.tsv", "pos\ta\tb\n", r"line 1 has 3 columns: a \.tsv line is a label"),
    ("a.tsv", "label\ttext\npos\n", r"line 2 has 1 columns where the first line names 2"),
    ("a.csv", "pos,a\n", r"line 1 names no columns 'label' and 'text' \(it has: 'pos', 'a'\).*--label-field"),
    ("a.csv", 'label,text\npos,"a" b\n', r"line 2 is no line of a \.csv"),
    ("a.jsonl", "{\n", r"line 1 is not JSON .*pass --on-bad-text drop"),
    ("a.jsonl", '{"label": "x"}\n', r"line 1 has no text under 'label' and 'text' \(it has: 'label'\)"),
    ("a.jsonl", "[1]\n", r"it is list, not an object"),
    ("a.tsv", b"\xff\ta\n", r"line 1, byte 1 .*UTF-8"),
    ("a.tsv", "", r"there are no labelled texts in .*: a line is a label, a tab and a text"),
    ("a.txt", "pos\ta\n", r"a\.txt is none of the files of labelled texts: \.tsv \.csv"),
])
def test_a_bad_line_is_refused_with_its_place_and_its_cure(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, name, text))


def test_settings_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(SettingError, match="both 'text'"):
        LabelSettings(("a.tsv",), label="text")
    with pytest.raises(SettingError, match="on_bad_text"):
        LabelSettings(("a.tsv",), on_bad_text="skip")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)
