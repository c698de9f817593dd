"""A text in segments is the text: the same tokens, counts and mistakes, wherever it is cut and whoever reads it."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.data import workers
from regard.data.reading import corpus, in_segments, lines, readers, segments
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.data.reading.readers import ReadSettings, find_sources, read
from regard.data.reading.split import TextSpan, take
from regard.data.reading.tally import Tally
from regard.errors import DataError

SILENT = lambda text: None                                   # noqa: E731
WORDS = ["the", "cat", "sat", "on", "a", "mat", "naïve", "猫", "42", ",", ".", "!"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 200 bytes, so that small texts have many."""
    for module in (lines, readers, segments):
        monkeypatch.setattr(module, "BLOCK", 200)
    monkeypatch.setattr(readers, "HEAD", 100)


def draw_text(seed: int, bad: bool = False) -> bytes:
    """Lines of all kinds: short, empty, blank, longer than a block, with CRLF, with NULs and, if `bad`, bad UTF-8."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(300):
        kind = chance.integers(0, 14)
        size = {0: 0, 1: 0, 2: 120}.get(int(kind), int(chance.integers(1, 12)))
        line = " ".join(chance.choice(WORDS, size)).encode()
        line = {3: b"  ", 4: line + b"\r", 5: line + b"\0x", 6: line.replace(b" ", b"")}.get(int(kind), line)
        if bad and kind in (7, 8):
            line += b"\xff"
        made.append(line)
    return b"\n".join(made) + (b"\n" if chance.integers(2) else b"")


def read_whole(sources, settings):
    tally = Tally()
    return list(read(sources, settings, tally)), tally.to_dict()


def read_in_segments(sources, settings, size):
    tally, pieces = Tally(), []
    for segment in segments.find_segments(sources, size):
        pieces += segments.read_segment(segments.files_from_json(json.loads(json.dumps(segment.to_json()))), settings,
                                        tally)
    return pieces, tally.to_dict()


@pytest.mark.parametrize("documents", ["file", "line", "blank-line"])
@pytest.mark.parametrize("on_bad_text", ["replace", "drop"])
@pytest.mark.parametrize("seed", range(6))
def test_segments_hold_the_pieces_and_counts_of_the_whole(tmp_path, small_blocks, documents, on_bad_text, seed):
    (tmp_path / "a.txt").write_bytes((b"\xef\xbb\xbf" if seed == 0 else b"") + draw_text(seed, bad=True))
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.txt").write_bytes(draw_text(seed + 100))
    (tmp_path / "d.jsonl").write_text("".join(json.dumps({"text": f"line {n}\n\nmore"}) + "\n" for n in range(99)))
    sources, settings = find_sources([tmp_path]), ReadSettings(documents, on_bad_text)
    whole = read_whole(sources, settings)
    for size in (300, 1000, 10**6):
        assert read_in_segments(sources, settings, size) == whole
    cuts = segments.find_segments(sources, 300)
    assert len(cuts) > 10 and sum(file.start > 0 for each in cuts for file in each.files) > 10


def test_a_file_of_which_nothing_is_kept_ends_in_its_last_part_only_if_it_began(tmp_path, small_blocks):
    (tmp_path / "a.txt").write_bytes(b"\xff\n" * 400)
    (tmp_path / "b.txt").write_bytes(b"kept\n" * 100 + b"\xff\n" * 400)
    sources, settings = find_sources([tmp_path]), ReadSettings("file", "drop")
    assert [piece.ends for piece in read_whole(sources, settings)[0]].count(True) == 1
    assert read_in_segments(sources, settings, 300) == read_whole(sources, settings)


@pytest.mark.parametrize("documents", ["file", "line", "blank-line"])
def test_a_mistake_in_a_segment_names_the_line_of_the_file(tmp_path, small_blocks, documents):
    (tmp_path / "a.txt").write_bytes(b"good line\n\n" * 200 + b"bad \xff line\n" + b"good\n" * 100)
    sources, settings = find_sources([tmp_path]), ReadSettings(documents)
    with pytest.raises(DataError, match="line 401, byte 5") as serial:
        read_whole(sources, settings)
    from regard.data.reading.segment_worker import with_numbers

    with pytest.raises(DataError) as cut:
        for segment in segments.find_segments(sources, 300):
            with_numbers(segment.files, lambda files: list(segments.read_segment(files, settings, Tally())))
    assert str(cut.value) == str(serial.value)


@pytest.mark.parametrize("unit", ["characters", "documents", "even documents", "odd documents"])
@pytest.mark.parametrize("documents", ["file", "line"])
def test_a_part_of_the_text_is_the_same_part_of_its_segments(tmp_path, small_blocks, unit, documents):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_bytes(draw_text(ord(name)))
    sources, settings = find_sources([tmp_path]), ReadSettings(documents)
    cuts = segments.find_segments(sources, 500)
    counted = []
    for segment in cuts:
        pieces = list(segments.read_segment(segment.files, settings, Tally()))
        counted.append((sum(len(piece.text) for piece in pieces), sum(piece.ends for piece in pieces)))
    counts = in_segments.SegmentCounts(*map(list, zip(*counted, strict=True)), {})
    total = sum(counts.characters) if unit == "characters" else sum(counts.documents)
    for start, stop in ((0, total // 2), (total // 2, None), (total // 3, 2 * total // 3), (total, None)):
        part = TextSpan(unit, start, stop)
        pieces = [piece for segment, span in zip(cuts, in_segments.spans_in(part, counts), strict=True)
                  if span is not None for piece in take(segments.read_segment(segment.files, settings, Tally()), span)]
        assert pieces == list(take(read(sources, settings), part))


@pytest.mark.parametrize("unit", ["characters", "documents", "even documents"])
@pytest.mark.parametrize("documents", ["file", "line"])
def test_the_sample_for_the_tokenizer_is_the_same_and_most_segments_are_not_read_for_it(
    tmp_path, small_blocks, monkeypatch, unit, documents
):
    (tmp_path / "a.txt").write_bytes(b"".join(draw_text(seed) for seed in range(4)))
    (tmp_path / "b.txt").write_bytes(draw_text(9))
    sources, settings = find_sources([tmp_path]), ReadSettings(documents)
    cuts = segments.find_segments(sources, 500)
    monkeypatch.setattr(in_segments, "find_segments", lambda sources: cuts)
    counted = [list(segments.read_segment(segment.files, settings, Tally())) for segment in cuts]
    counts = in_segments.SegmentCounts([sum(len(piece.text) for piece in each) for each in counted],
                                       [sum(piece.ends for piece in each) for each in counted], {})
    part = TextSpan(unit, 0, (sum(counts.characters) if unit == "characters" else sum(counts.documents)) * 4 // 5)
    texts = [piece.text for piece in take(read(sources, settings), part)]
    total, unread = sum(map(len, texts)), 0
    opened = []

    def opening(read_it):
        return lambda: opened.append(1) or read_it()

    for limit in (100, 700, total // 2, total - 1, total):
        opened.clear()
        known = ((size, opening(read_it)) for size, read_it in
                 in_segments.stretches_of(sources, settings, part, counts))
        assert list(corpus.sample_stretches(known, total, limit)) == list(corpus.sample(iter(texts), total, limit))
        unread = max(unread, len(cuts) - len(opened))
    assert unread > len(cuts) // 2 or unit == "even documents"


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a cache but the counts of segments, of which the serial reading has none."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: data for name, data in found.items() if b'"survey"' not in data}


def prepared(folder: Path, text: Path, kind: str = "bpe", documents: str = "auto", **options):
    said: list[str] = []
    made = prepare(DataSettings((str(text),), documents=documents, halve=True, **options),
                   TokenizerSettings(kind, 300 if kind == "bpe" else 0), folder, said.append)
    assert made.test is not None and made.test().path
    return made, said


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_bytes(draw_text(1) + draw_text(2) + b" ".join([b"mat cat"] * 3000))
    return tmp_path / "text.txt"


@pytest.fixture
def cut_small(small_blocks, monkeypatch):
    """Every text is large, and cut into segments of two kilobytes."""
    monkeypatch.setattr(in_segments, "LARGE", 0)
    monkeypatch.setattr(segments, "SEGMENT", 2000)
    monkeypatch.setattr(in_segments, "find_segments", lambda sources: segments.find_segments(sources, 2000))


@pytest.mark.parametrize(("kind", "documents"), [("bpe", "file"), ("bpe", "line"), ("word", "auto"), ("char", "file")])
def test_what_is_made_in_segments_is_byte_for_byte_what_is_made_at_once(
    tmp_path, text, small_blocks, monkeypatch, kind, documents
):
    serial, said = prepared(tmp_path / "serial", text, kind, documents)
    monkeypatch.setattr(in_segments, "LARGE", 0)
    monkeypatch.setattr(in_segments, "find_segments", lambda sources: segments.find_segments(sources, 2000))
    with workers.use_workers(1):
        cut, said_too = prepared(tmp_path / "cut", text, kind, documents)
    assert said_too == said
    assert cut.content == serial.content and cut.tally.to_dict() == serial.tally.to_dict()
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "serial")
    assert not list((tmp_path / "cut" / "segments").iterdir())                  # the work is put away


def test_large_texts_alone_are_cut(tmp_path, text, monkeypatch):
    monkeypatch.setattr(corpus, "encode_segments", None)                         # would fail if it were called
    prepared(tmp_path / "cache", text)


# ------------------------------------------------------------------------------------------- interruptions


class Stopped(BaseException):
    """Stands for Ctrl-C."""


@pytest.fixture
def stop_after(monkeypatch):
    """A function: from now on the work stops when so many more segments are done; it gives the list of these."""
    answer = in_segments.answer

    def arm(number):
        done = []

        def counted(order):
            if len(done) == number:
                raise Stopped
            done.append(order["path"])
            return answer(order)

        monkeypatch.setattr(in_segments, "answer", counted)
        return done

    return arm


def test_interrupted_work_goes_on_where_it_was_and_ends_the_same(tmp_path, text, cut_small, stop_after):
    with workers.use_workers(1):
        every = stop_after(10**9)
        prepared(tmp_path / "undisturbed", text)
        done = []
        for number in (5, 9, 14):
            done += (some := stop_after(number))
            with pytest.raises(Stopped):
                prepared(tmp_path / "cache", text)
            done += some
        done += (rest := stop_after(10**9))
        _, said = prepared(tmp_path / "cache", text)
        done += rest
    assert len(done) == len(set(done)) == len(every)                     # each segment once
    assert any("going on" in line for line in said)
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "undisturbed")


def test_a_segment_that_was_damaged_meanwhile_is_made_again(tmp_path, text, cut_small, stop_after):
    with workers.use_workers(1):
        every = stop_after(10**9)
        prepared(tmp_path / "undisturbed", text)
        some = stop_after(sum(path.endswith(".sealed") for path in every) + 3)        # all are counted, 3 encoded
        with pytest.raises(Stopped):
            prepared(tmp_path / "cache", text)
        last = Path(some[-1])
        damaged = last / "tokens.bin"
        damaged.write_bytes(damaged.read_bytes()[:-2] + b"xx")
        again = stop_after(10**9)
        prepared(tmp_path / "cache", text)
    assert again[0] == str(last)
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "undisturbed")


# ------------------------------------------------------------------------------------------------ workers


@pytest.fixture(scope="module")
def megabytes(tmp_path_factory):
    """A text of a few blocks, which real workers cut as they do."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(b"".join(draw_text(seed) + b"\n" for seed in range(3)) * 100)
    return path


@pytest.fixture
def cut_at_blocks(monkeypatch):
    """Every text is cut into segments of a megabyte, which are counted and encoded by workers."""
    monkeypatch.setattr(in_segments, "LARGE", 0)
    monkeypatch.setattr(in_segments, "LARGE_SURVEY", 0)
    monkeypatch.setattr(in_segments, "find_segments", lambda sources: segments.find_segments(sources, 2**20))


def test_workers_make_what_one_process_makes(tmp_path, megabytes, request):
    prepared(tmp_path / "serial", megabytes, "char")
    request.getfixturevalue("cut_at_blocks")
    with workers.use_workers(2):
        prepared(tmp_path / "cut", megabytes, "char")
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "serial")


def test_a_mistake_that_a_worker_meets_is_one_clear_line(tmp_path, megabytes, cut_at_blocks):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(megabytes.read_bytes() + b"bad \xff\n")
    number = bad.read_bytes().count(b"\n")
    with workers.use_workers(2), pytest.raises(DataError, match=rf"bad.txt line {number}, byte 5 \(0xff\) is not"):
        prepared(tmp_path / "cache", bad)


def test_a_mistake_in_an_early_segment_is_told_before_one_in_a_late_segment(tmp_path, megabytes, cut_at_blocks):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xfe\n" + megabytes.read_bytes() + b"bad \xff\n")
    with workers.use_workers(2), pytest.raises(DataError, match="line 1, byte 1"):
        prepared(tmp_path / "cache", bad)
