import gzip
import io
import json
import os
import sys
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.reading import lines, readers
from regard.data.reading.readers import ReadSettings, TextFile, TextPiece, find_sources, read
from regard.data.reading.tally import Tally
from regard.errors import DataError, SettingError


def documents(files, documents="file", tally=None, **options):
    """Every document whole."""
    found, parts = [], []
    for text, ends in read(find_sources(files), ReadSettings(documents, **options), tally):
        parts.append(text)
        if ends:
            found.append("".join(parts))
            parts = []
    assert not parts, "the last document never ended"
    return found


def small_blocks(monkeypatch, block):
    monkeypatch.setattr(lines, "BLOCK", block)
    monkeypatch.setattr(readers, "HEAD", 4)


def complaint(*arguments, **options):
    with pytest.raises(DataError) as caught:
        documents(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_file_is_one_document_with_every_character(write):
    assert documents([write("a.txt", "one\n\n two\n"), write("b", "x")]) == ["one\n\n two\n", "x"]


def test_each_line_is_a_document_and_empty_ones_are_counted(write):
    tally = Tally()
    assert documents([write("a.txt", "one\n\n two\n \nlast")], "line", tally) == ["one", " two", "last"]
    assert tally.line() == "5 lines read: 3 kept, 2 dropped (2 empty)"


def test_blank_lines_part_documents(write):
    tally = Tally()
    text = "\n\na\nb\n\n\nc\n"
    assert documents([write("a.txt", text)], "blank-line", tally) == ["a\nb", "c"]
    assert (tally.read, tally.kept, tally.dropped["empty"], tally.documents) == (7, 3, 4, 2)


def test_lines_end_at_newlines_and_nowhere_else(write):
    line = "a\u2028b\u0085c\x0cd\x1de\rf"
    assert documents([write("a.txt", f"{line}\nz\n")], "line") == [line, "z"]


def test_a_byte_order_mark_goes_and_crlf_becomes_lf(write):
    path = write("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert documents([path]) == ["one\ntwo\n"]
    assert documents([path], "line") == ["one", "two"]


@pytest.mark.parametrize("block", range(4, 12))
def test_crlf_and_characters_may_fall_on_a_block_boundary(write, monkeypatch, block):
    small_blocks(monkeypatch, block)
    text = "é😀aa\r\nb\r\n\r\ncccccccccccc dddddddddd😀😀😀éé\r\n"
    path = write("a.txt", text)
    assert documents([path]) == [text.replace("\r\n", "\n")]
    assert documents([path], "line") == [line for line in text.split("\r\n") if line]


def test_nuls_are_removed_and_counted(write):
    tally = Tally()
    assert documents([write("a.txt", "some good text\0 here\n" * 3)], "line", tally) == ["some good text here"] * 3
    assert tally.line() == "3 lines read: 3 kept, 0 dropped; mended: 3 NUL characters removed"


def test_bad_utf8_names_file_line_and_byte(write):
    path = write("a.txt", b"good\nalso good\nba\xffd\n")
    message = complaint([path])
    assert f"{path} line 3, byte 3 (0xff) is not UTF-8" in message
    assert "--on-bad-text replace" in message and "drop" in message


def test_bad_utf8_far_into_a_giant_line_names_its_place(write, monkeypatch):
    small_blocks(monkeypatch, 64)
    path = write("a.txt", b"x\n" + b"y" * 1000 + b"\xc3(" + b"z" * 100)
    assert f"{path} line 2, byte 1001 (0xc3)" in complaint([path])


def test_bad_utf8_can_be_replaced_or_dropped(write):
    path = write("a.txt", b"good\nba\xffd\nend\n")
    tally = Tally()
    assert documents([path], "line", tally, on_bad_text="replace") == ["good", "ba\ufffdd", "end"]
    assert tally.line() == "3 lines read: 3 kept, 0 dropped; mended: 1 with bad UTF-8 replaced"
    tally = Tally()
    assert documents([path], "file", tally, on_bad_text="drop") == ["good\nend\n"]
    assert tally.line() == "3 lines read: 2 kept, 1 dropped (1 bad UTF-8)"


@given(st.lists(st.binary(max_size=8), max_size=30), st.sampled_from(["file", "line", "blank-line"]),
       st.sampled_from(["replace", "drop"]), st.sampled_from([7, 16, 2**20]))
def test_every_line_is_kept_or_dropped(tmp_path_factory, raws, how, on_bad_text, block):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(b"text\n" + b"\n".join(raw.replace(b"\0", b"") for raw in raws))
    expected = path.read_bytes().removesuffix(b"\n").count(b"\n") + 1
    tally = Tally()
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, block)
        found = documents([str(path)], how, tally, on_bad_text=on_bad_text)
    assert tally.read == tally.kept + tally.dropped.total() == expected
    assert tally.documents == len(found)
    if how == "line":
        assert tally.kept == len(found)


def test_utf16_and_binary_files_are_refused_by_name(write):
    path = write("a.txt", "hello".encode("utf-16"))
    assert f"{path} is UTF-16" in complaint([path])
    path = write("b.txt", b"\x7fELF\x02\x01" + bytes(range(256)) * 20)
    assert complaint([path]).startswith(f"{path} looks binary, not text (byte 0x00 at offset 6)")
    assert "looks binary" in complaint([path], on_bad_text="replace")


def test_missing_and_empty_inputs_are_one_clear_line(write, tmp_path):
    assert "nowhere.txt does not exist" in complaint([str(tmp_path / "nowhere.txt")])
    assert "no text was given" in complaint([])
    empty = write("empty.txt", "")
    assert f"there is no text in {empty}" in complaint([empty])
    assert "no text in" in complaint([write("blank.txt", "\n \n")], "line")


def test_a_folder_is_searched_in_order_and_refused_when_it_has_no_text(write, tmp_path):
    write("books/b.txt", "bee")
    write("books/a/z.md", "zed")
    write("books/.git/c.txt", "hidden")
    write("books/picture.png", b"\x89PNG\0")
    write("books/c.txt.gz", gzip.compress(b"sea"))
    assert documents([str(tmp_path / "books")]) == ["bee", "sea", "zed"]
    (tmp_path / "none").mkdir()
    assert "none has no text in it" in complaint([str(tmp_path / "none")])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_one_clear_line(write):
    path = write("a.txt", "text")
    os.chmod(path, 0)
    assert f"no permission to read {path}" in complaint([path])


def test_a_refused_open_is_one_clear_line(write, monkeypatch):
    path = write("a.txt", "text")

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(DataError, match="no permission to read"):
        list(read([TextFile(path, path)], ReadSettings("file")))


def test_gzip_is_unpacked_and_a_broken_one_refused(write):
    packed = gzip.compress("é\nb\n".encode() * 1000)
    assert documents([write("a.txt.gz", packed)]) == ["é\nb\n" * 1000]
    assert "is not a whole gzip file" in complaint([write("b.txt.gz", packed[:-20])])
    assert "is not a whole gzip file" in complaint([write("c.txt.gz", b"plain text")])


def test_jsonl_records_are_documents(write):
    tally = Tally()
    records = [{"text": "one\r\ntwo", "id": 1}, "bare", {"text": ""}, {"text": None}, {"text": "x\u2028y"}]
    path = write("a.jsonl", "\n".join(json.dumps(record) for record in records) + "\n\n")
    assert documents([path], "line", tally) == ["one\ntwo", "bare", "x\u2028y"]
    assert tally.line() == "6 lines read: 3 kept, 3 dropped (3 empty)"
    assert documents([write("b.jsonl.gz", gzip.compress(b'{"body": "z"}'))], field="body") == ["z"]


@pytest.mark.parametrize("line, part", [
    ('{"text": ', "line 2 is not JSON"),
    ('{"body": "x", "id": 3}', "line 2 has no field 'text' (it has: body, id)"),
    ('{"text": 3}', "line 2 holds int '3' where text was expected"),
    ("[1]", "line 2 holds list"),
    ('"\\ud800"', "line 2 has half a surrogate pair (U+D800)"),
    ("[" * 200_000, "line 2 is not JSON"),
])
def test_a_bad_json_line_is_named(write, line, part):
    assert part in complaint([write("a.jsonl", f'"fine"\n{line}\n')])


def test_bad_json_and_bad_bytes_can_be_dropped(write):
    tally = Tally()
    path = write("a.jsonl", b'"fine"\n{"text": \n"\xff"\n"\\ud800"\n')
    assert documents([path], tally=tally, on_bad_text="drop") == ["fine"]
    assert tally.line() == "4 lines read: 1 kept, 3 dropped (1 bad JSON, 2 bad UTF-8)"


def test_parquet_rows_are_documents(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"text": ["one", None, "two\nlines"], "id": [1, 2, 3]}), path)
    tally = Tally()
    assert documents([str(path)], "line", tally) == ["one", "two\nlines"]
    assert tally.line() == "3 records read: 2 kept, 1 dropped (1 empty)"
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert documents([str(tmp_path / "b.parquet.gz")]) == ["one", "two\nlines"]
    assert "has no column 'body' (it has: text, id)" in complaint([str(path)], field="body")
    assert "holds int" in complaint([str(path)], field="id")


def test_a_broken_parquet_file_and_a_missing_pyarrow_are_one_clear_line(write, monkeypatch):
    path = write("a.parquet", b"PAR1 nothing of the kind")
    assert "is not a readable Parquet file" in complaint([path])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "regard[parquet]" in complaint([path])


def test_stdin_can_be_read_twice(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"from\nafar\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    sources = find_sources(["-"])
    for _ in range(2):
        assert list(read(sources, ReadSettings("line"))) == [TextPiece("from", True), TextPiece("afar", True)]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_named_pipe_can_be_read_twice(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    Thread(target=path.write_text, args=["from\nafar\n"]).start()
    sources = find_sources([path])
    for _ in range(2):
        assert list(read(sources, ReadSettings("line"))) == [TextPiece("from", True), TextPiece("afar", True)]


def test_a_giant_line_comes_in_bounded_pieces_cut_before_spaces(write):
    text = "word " * 500_000 + "\nnext " + "x" * 3_000_000
    path = write("a.txt", text)
    for how, expected in (("file", [text]), ("line", text.split("\n")), ("blank-line", [text])):
        pieces = list(read(find_sources([path]), ReadSettings(how)))
        assert max(len(piece.text) for piece in pieces) <= lines.BLOCK
        assert documents([path], how) == expected
    assert pieces[0].text.endswith("word") and pieces[1].text.startswith(" word")


def test_giant_lines_with_bad_bytes_keep_the_account(write, monkeypatch):
    small_blocks(monkeypatch, 64)
    path = write("a.txt", b"a\n" + b"b" * 100 + b"\xff" + b"c" * 100 + b"\nd\n")
    tally = Tally()
    found = documents([path], "line", tally, on_bad_text="drop")
    assert found[0] == "a" and found[-1] == "d" and len(found) == 3
    assert (tally.read, tally.kept, tally.mended.total()) == (3, 3, 1)


def test_unknown_settings_are_refused_with_a_suggestion(write):
    path = write("a.txt", "x")
    with pytest.raises(SettingError, match="did you mean line"):
        documents([path], "lines")
    with pytest.raises(SettingError, match="on_bad_text"):
        documents([path], "file", on_bad_text="ignore")
