"""Texts at an address are read as files are: here in memory and on this disk, through fsspec."""

import gzip
import io
import sys
import time

import pytest

from regard.data import workers
from regard.data.labels.labelled_texts import OF_TEXTS, find_labelled_sources
from regard.data.pairs.pairs import PairSettings, find_pair_sources, read_pairs
from regard.data.reading import in_segments, remote
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.data.reading.readers import ReadSettings, every_line, find_sources, read
from regard.data.reading.remote import ReadAhead, refuse_addresses
from regard.data.reading.segments import find_segments
from regard.data.reading.text_cache import content_hash
from regard.errors import DataError, SettingError

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    """The file system in memory, empty before and after."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


FILES = {"a.txt": b"one\ntwo\n", "b.txt": b"three\n" * 50_000, "sub/c.jsonl": b'{"text": "four"}\n',
         "d.txt.gz": gzip.compress(b"five\n" * 1000), "e.bin": b"\0", ".hidden/f.txt": b"no\n"}


@pytest.fixture
def both(tmp_path, memory):
    """The same files in a folder, in memory and at a file:// address."""
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
        memory.pipe(f"/texts/{name}", data)
    return str(tmp_path), "memory://texts", f"file://{tmp_path}"


def text_of(names):
    return list(read(find_sources(names), ReadSettings("line")))


def test_a_folder_at_an_address_holds_the_text_of_the_same_folder_here(both):
    wanted, there = find_sources([both[0]]), [find_sources([name]) for name in both[1:]]
    for sources in there:
        assert [source.name.rpartition("/")[2] for source in sources] == [source.path.name for source in wanted]
        assert list(read(sources, ReadSettings("line"))) == list(read(wanted, ReadSettings("line")))
        assert content_hash(sources) == content_hash(wanted)


def test_a_pattern_at_an_address_means_the_files_that_it_fits_by_name(both):
    for folder in both[1:]:
        assert [source.path.name for source in find_sources([f"{folder}/?.txt"])] == ["a.txt", "b.txt"]


def test_a_corpus_at_an_address_is_the_corpus_here_and_shares_its_cache(both, tmp_path):
    said: list[str] = []
    made = [prepare(DataSettings((f"{folder}/b.txt",)), TokenizerSettings("char"), tmp_path / "cache", said.append)
            for folder in both]
    assert len({each.content for each in made}) == 1 and len({each.train.path for each in made}) == 1
    assert sum("reused" in line for line in said) == 6


def test_pairs_and_labelled_texts_and_lines_are_read_from_an_address(memory):
    memory.pipe("/p/1.tsv", b"un\tone\ndeux\ttwo\n")
    memory.pipe("/p/2.tsv", b"trois\tthree\n")
    settings = PairSettings(("memory://p/*.tsv",))
    assert [pair.target for pair in read_pairs(settings)] == ["one", "two", "three"]
    memory.pipe("/s.fr", b"un\n")
    memory.pipe("/s.en", b"one\n")
    assert list(read_pairs(PairSettings(("memory://s.fr", "memory://s.en")))) == [("un", "one")]
    assert len(find_pair_sources(["memory://p/*.tsv"])) == 2
    assert len(find_labelled_sources(["memory://p/*.tsv"], OF_TEXTS)) == 2
    assert list(every_line("memory://s.fr")) == ["un"]


def test_workers_read_files_at_addresses_but_not_those_in_this_process_memory(both, tmp_path, monkeypatch):
    monkeypatch.setattr(in_segments, "LARGE", 0)
    assert not in_segments.is_large(find_sources([both[1]]))
    monkeypatch.setattr(in_segments, "find_segments", lambda sources: find_segments(sources, 1000))
    plain = prepare(DataSettings((both[1],)), TokenizerSettings("char"), tmp_path / "plain", lambda line: None)
    with workers.use_workers(2):
        cut = prepare(DataSettings((both[2],)), TokenizerSettings("char"), tmp_path / "cut", lambda line: None)
    assert cut.content == plain.content and cut.train.content == plain.train.content


# ------------------------------------------------------------------------------------------------ reading ahead


class SlowFile(io.BytesIO):
    """Counts its reads."""

    reads = 0

    def read(self, size=-1):
        self.reads += 1
        return super().read(size)


def test_blocks_are_read_ahead_of_the_reader_but_not_without_bound(monkeypatch):
    monkeypatch.setattr(remote, "AHEAD", 10)
    file = SlowFile(bytes(range(200)))
    stream = ReadAhead(file, "x://y")
    assert file.reads == 0 and stream.read(1) == b"\0"
    until = time.monotonic() + 5
    while file.reads < remote.BLOCKS + 1 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.05)
    assert remote.BLOCKS + 1 <= file.reads <= remote.BLOCKS + 2
    assert stream.read(14) == bytes(range(1, 10))                              # one block at most, as raw streams give
    assert stream.seek(50) == 50 and stream.read(3) == bytes(range(50, 53)) and stream.tell() == 53
    assert stream.seek(-2, io.SEEK_CUR) == 51 and stream.read(1) == b"\x33"
    assert stream.seek(0) == 0 and io.BufferedReader(stream).read() == bytes(range(200))
    assert stream.thread is None


def test_what_fails_while_reading_is_one_line_with_the_address():
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise RuntimeError("the store is closed\nand more")

    with pytest.raises(DataError, match=r"^could not read s3://b/x \(RuntimeError: the store is closed\)$"):
        ReadAhead(Broken(), "s3://b/x").read(1)


# ------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(("name", "message"), [
    ("memory://texts/none.txt", r"memory://texts/none.txt does not exist: check the name"),
    ("memory://texts/*.none", r"fits no file"),
    ("memory://empty", r"does not exist"),
    ("memory://bin", r"has no text in it"),
    ("nosuchthing://a/b.txt", r"could not read nosuchthing://a/b.txt \(ValueError: Protocol not known"),
    ("simplecache::memory://texts/a.txt", r"does not exist"),
    ("dir://x::memory://texts/a.txt", r"addresses within addresses are not opened"),
])
def test_an_address_that_cannot_be_read_is_one_clear_line(both, memory, name, message):
    memory.pipe("/bin/e.bin", b"\0")
    with pytest.raises((DataError, SettingError), match=message) as caught:
        find_sources([name])
    assert "\n" not in str(caught.value)


def test_a_missing_package_is_one_line_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(DataError, match=r"needs fsspec to be read: pip install 'regard\[remote\]'"):
        find_sources(["s3://bucket/a.txt"])


def test_a_missing_package_of_one_kind_of_store_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(DataError, match=r"s3://bucket/a.txt cannot be read yet: .*s3fs"):
        find_sources(["s3://bucket/a.txt"])


def test_an_address_in_the_settings_of_a_run_is_not_opened():
    refuse_addresses(["a.txt", "/b/c.txt", "-"])
    with pytest.raises(SettingError, match="http://stranger/x comes from the settings of a run"):
        refuse_addresses(["a.txt", "http://stranger/x"])


def test_a_run_that_goes_on_opens_an_address_only_where_it_is_named_again():
    from regard.config import as_values
    from regard.tasks import task_named
    from regard.training.request import TrainRequest, resumed_data

    there = ("memory://texts/b.txt",)
    tables = {"data": as_values(DataSettings(("a.txt",), valid=there)), "tokenizer": {"kind": "char"}}
    with pytest.raises(SettingError, match="comes from the settings of a run"):
        resumed_data(TrainRequest(("a.txt",)), tables, task_named("lm"))
    again = resumed_data(TrainRequest(("a.txt",), settings={"data": {"valid": there}}), tables, task_named("lm"))
    assert again.valid == there
