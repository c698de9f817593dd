"""Small files of pairs that would take much memory or time, or bring their own words into a message."""

import gzip
import struct
import time
import tracemalloc

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


def test_a_header_without_an_end_is_refused_at_once(tmp_path, monkeypatch):
    """gzip reads the name in a header byte by byte: ten megabytes took seconds."""
    from regard.data.reading import unpacking
    from regard.data.reading.readers import ReadSettings, find_sources, read

    path, taken = tmp_path / "a.txt.gz", []
    path.write_bytes(b"\x1f\x8b\x08\x08\0\0\0\0\0\3" + b"x" * 10**6)
    honest = unpacking._Sips.read
    monkeypatch.setattr(unpacking._Sips, "read", lambda self, size=-1: taken.append(size) or honest(self, size))
    with pytest.raises(DataError, match=r"a\.txt\.gz is not a whole gzip file \(its header has no end\)"):
        list(read(find_sources([str(path)]), ReadSettings("line")))
    assert len(taken) < 2 * unpacking.HEADER
    with gzip.GzipFile("n" * 60_000, "wb", fileobj=path.open("wb")) as file:            # a long name is one
        file.write(b"a cat\n")
    assert len(list(read(find_sources([str(path)]), ReadSettings("line")))) == 1


def test_a_table_of_more_rows_than_its_bytes_can_hold_is_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    from regard.data.reading.readers import ReadSettings, find_sources, read

    column = arrow.DictionaryArray.from_arrays(arrow.array([0] * 1_000_000, arrow.int32()), ["a cat"])
    parquet.write_table(arrow.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="says that it has 1,000,000 rows, as no text does"):
        next(read(find_sources([str(tmp_path / "a.parquet")]), ReadSettings("line")))


# ------------------------------------------------------------------------------------------------ Arrow


def arrow_file(path, table):
    import pyarrow

    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as file:
        file.write_table(table)
    return path


def rows_of_text(path):
    from regard.data.reading.readers import ReadSettings, find_sources, read

    return [piece.text for piece in read(find_sources([str(path)]), ReadSettings("line"))]


def test_offsets_of_arrow_that_lead_outside_its_bytes_are_refused(tmp_path):
    """They were followed: what lay in memory behind the file was read as text, or the process ended."""
    arrow = pytest.importorskip("pyarrow")
    path = arrow_file(tmp_path / "a.arrow", arrow.table({"text": ["a cat", "sat!"]}))
    raw, good = path.read_bytes(), struct.pack("<3i", 0, 5, 9)
    assert raw.count(good) == 1
    path.write_bytes(raw.replace(good, struct.pack("<3i", 0, 5, 2**30)))
    with pytest.raises(DataError, match=r"a\.arrow is not a readable Arrow file"):
        rows_of_text(path)


def test_rows_of_arrow_that_take_no_bytes_are_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    for column in (arrow.nulls(50_000_000), arrow.FixedSizeListArray.from_arrays(arrow.nulls(50_000_000), 25_000_000)):
        with pytest.raises(DataError, match="says that it has more than"):
            rows_of_text(arrow_file(tmp_path / "a.arrow", arrow.table({"text": column})))


def test_rows_of_arrow_that_share_one_long_text_are_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import numpy

    column = arrow.DictionaryArray.from_arrays(arrow.array(numpy.zeros(90_000, numpy.int8)), ["x" * 200_000])
    path = arrow_file(tmp_path / "a.arrow", arrow.table({"text": column}))
    tracemalloc.start()
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        rows_of_text(path)
    assert tracemalloc.get_traced_memory()[1] < 2**27                  # and not 18 GB
    tracemalloc.stop()
    few = arrow.DictionaryArray.from_arrays(arrow.array([0, 1, 0], arrow.int8()), ["a cat", "the dog"])
    assert rows_of_text(arrow_file(path, arrow.table({"text": few}))) == ["a cat", "the dog", "a cat"]
