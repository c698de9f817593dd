"""Small files of pairs that would take much memory or time, or bring their own words into a message."""

import gzip
import struct
import time

import pytest

from regard.data.pairs import catalogs
from regard.data.pairs.pairs import PairSettings, read_pairs
from regard.errors import DataError


def complaint(path, **options):
    began = time.process_time()
    with pytest.raises(DataError) as caught:
        list(read_pairs(PairSettings((str(path),), **options)))
    assert time.process_time() - began < 2 and "\n" not in str(caught.value)
    return str(caught.value)


def mo(count):
    """A compiled catalog of so many empty messages, of which all lie in one place."""
    strings = struct.pack("<II", 0, 28 + 16 * count) * (2 * count)
    return b"\xde\x12\x04\x95" + struct.pack("<6I", 0, count, 28, 28 + 8 * count, 0, 0) + strings + b"\0"


def test_a_packed_catalog_that_unpacks_to_much_is_refused_as_it_streams(tmp_path):
    path = tmp_path / "bomb.mo.gz"
    path.write_bytes(gzip.compress(mo(1_000_000), 9))
    assert path.stat().st_size < 30_000
    assert "times its size, as no text does" in complaint(path)
    path = tmp_path / "bomb.po.gz"
    path.write_bytes(gzip.compress(b'msgid "a"\nmsgstr "b"\n\n' * 90_000, 9))
    assert "times its size, as no" in complaint(path)


def test_a_catalog_of_too_many_messages_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogs, "MOST_ENTRIES", 1000)
    (tmp_path / "many.mo").write_bytes(mo(1001))
    (tmp_path / "many.po").write_bytes(b'msgid "a"\nmsgstr "b"\n\n' * 1001)
    assert "has more than 1,000 messages" in complaint(tmp_path / "many.mo")
    assert "has more than 1,000 messages" in complaint(tmp_path / "many.po")


@pytest.mark.parametrize("encoding", ["klingon", "utf-7", "idna", "shift_jis", "undefined", "base64", "utf-32"])
def test_a_memory_in_an_encoding_that_is_not_read_says_so(tmp_path, encoding):
    path = tmp_path / "a.tmx"
    path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?><tmx version="1.4"><body></body></tmx>'.encode())
    found = complaint(path, langs="fr-en")
    assert "a.tmx" in found and ("encoding" in found or "XML" in found or "no pairs" in found), found


def test_a_packed_table_that_unpacks_to_much_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress(bytes(20_000_000)))
    assert "unpacks to more than 20 times its size" in complaint(path)


def test_reasons_of_parquet_are_one_line(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"source": ["un\nchat"] * 9, "target": ["a cat"] * 9}), path)
    raw = path.read_bytes()
    for cut in (8, len(raw) // 2, len(raw) - 9):
        path.write_bytes(raw[:cut] + bytes(len(raw) - cut))
        assert "a.parquet is not a readable Parquet file" in complaint(path)


def test_packed_text_that_unpacks_to_much_is_refused_as_it_streams(tmp_path):
    """Half an hour of one sentence came out of a few megabytes."""
    from regard.data.reading.readers import ReadSettings, find_sources, read

    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "the cat sat on the mat"}\n' * 100_000, 9))
    with pytest.raises(DataError, match="unpacks to more than 200 times its size, as no text does: unpack it yourself"):
        list(read(find_sources([str(path)]), ReadSettings("line")))
    path.write_bytes(gzip.compress(b'{"text": "the cat sat on the mat"}\n' * 1000, 9))            # small ones may
    assert len(list(read(find_sources([str(path)]), ReadSettings("line")))) == 1000


def test_a_table_of_more_rows_than_its_bytes_can_hold_is_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    from regard.data.reading.readers import ReadSettings, find_sources, read

    column = arrow.DictionaryArray.from_arrays(arrow.array([0] * 1_000_000, arrow.int32()), ["a cat"])
    parquet.write_table(arrow.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="says that it has 1,000,000 rows, as no text does"):
        next(read(find_sources([str(tmp_path / "a.parquet")]), ReadSettings("line")))
