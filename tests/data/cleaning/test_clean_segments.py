"""Pairs and labelled texts that are cleaned in segments are those that one process cleans, byte for byte."""

import gzip
import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from regard.data import workers
from regard.data.cleaning import clean_segments, clean_worker, cuts
from regard.data.labels.label_corpus import clean as clean_labelled
from regard.data.labels.labelled_texts import OF_TEXTS, LabelSettings, find_labelled_sources
from regard.data.labels.tagged_sentences import OF_WORDS
from regard.data.pairs import pair_corpus, pair_readers
from regard.data.pairs.pair_readers import PairSettings
from regard.data.pairs.pairs import find_pair_sources
from regard.data.reading import two_fields
from regard.data.reading.text_cache import Cache
from regard.errors import DataError

WORDS = ["the", "cat", "sat", "on", "a", "mat", "naïve", "猫", "42", "\u2028", "\rlone", "."]
SILENT = lambda text: None                                   # noqa: E731
SIZES = (1500, 9000)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Every file is large, and a line of more than 300 bytes is passed over."""
    monkeypatch.setattr(os, "fsync", os.fstat)
    monkeypatch.setattr(clean_segments, "LARGE", 0)
    for module in (two_fields, cuts):
        monkeypatch.setattr(module, "LONGEST", 300)
    monkeypatch.setattr(cuts, "BLOCK", 700)


def cut_at(monkeypatch, size):
    """Cut into segments of so many bytes; None: clean in one process, in one go."""
    monkeypatch.setattr(clean_segments, "LARGE", 2**63 if size is None else 0)
    for name in ("cut_pairs", "cut_labelled"):
        monkeypatch.setattr(clean_segments, name, partial(getattr(cuts, name), size=size))


def draw_lines(seed: int, count: int = 250) -> list[bytes]:
    """Sentences of all kinds: short, empty, blank, giant, twice, with CRLF, with NULs and with bad UTF-8."""
    chance, made = np.random.default_rng(seed), [b"one"]
    for _ in range(count):
        kind = int(chance.integers(0, 12))
        line = " ".join(chance.choice(WORDS, {0: 0, 1: 120}.get(kind, int(chance.integers(1, 9))))).encode()
        made.append({2: b"  ", 3: line + b"\r", 4: line + b"\0x", 5: line + b"\xff",
                     6: made[int(chance.integers(0, len(made)))], 7: b"the cat"}.get(kind, line))
    return made


def end_lines(lines, ended=True) -> bytes:
    return b"\n".join(lines) + b"\n" * ended


def write_aligned(folder: Path, seed: int) -> list[Path]:
    one, other = draw_lines(seed), draw_lines(seed + 50)
    repeated = [(b"the cat", b"the cat")] * 9 + list(zip(one, other, strict=True))[:60]
    lines = list(zip(one, other, strict=True)) + repeated
    lines += [(b"last", b"last")] * (lines[-1][0] == b"" or lines[-1][1] == b"")
    paths = [folder / "a.fr", folder / "a.en"]
    paths[0].write_bytes(b"\xef\xbb\xbf" * (seed % 2) + end_lines([line[0] for line in lines], seed % 2 == 0))
    paths[1].write_bytes(end_lines([line[1] for line in lines]))
    return paths


def table_lines(seed: int, width: int, header: bytes = b"") -> bytes:
    sides = [[line.replace(b"\t", b" ") for line in draw_lines(seed + place)] for place in range(width)]
    rows = [b"\t".join(cells) for cells in zip(*sides, strict=True)]
    rows = [row for row in rows for _ in range(1 + (len(row) % 7 == 0))]
    return end_lines([header] * bool(header) + rows)


def objects(seed: int, names: tuple[str, str]) -> bytes:
    both = zip(draw_lines(seed), draw_lines(seed + 1), strict=True)
    rows = [{name: side.decode(errors="replace") for name, side in zip(names, pair, strict=True)} for pair in both]
    return end_lines([json.dumps(row).encode() for row in rows] + [b"", b"{not json"])


def sealed(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def both_ways(tmp_path, monkeypatch, clean):
    """Clean in one go and in segments of some sizes; return what was said of the first."""
    said: list[str] = []
    cut_at(monkeypatch, None)
    clean(Cache(tmp_path / "whole"), said.append)
    whole = sealed(tmp_path / "whole")
    assert len(whole) == 4
    for size in SIZES:
        told: list[str] = []
        cut_at(monkeypatch, size)
        with workers.use_workers(1):
            clean(Cache(tmp_path / str(size)), told.append)
        assert sealed(tmp_path / str(size)) == whole
        assert told == said
        assert not list((tmp_path / str(size)).glob("segments/*"))           # the work is put away
    return said


# ------------------------------------------------------------------------------------------------ the same


def clean_pairs(*files, **options):
    settings = PairSettings(tuple(map(str, files)), **{"on_bad_text": "drop", "max_words": 40, **options})
    return lambda store, say: pair_corpus.clean(settings, settings.langs, store, say)


@pytest.mark.parametrize("on_bad_text", ["replace", "drop"])
@pytest.mark.parametrize("seed", range(3))
def test_aligned_files(tmp_path, monkeypatch, seed, on_bad_text):
    files = write_aligned(tmp_path, seed)
    (line,) = both_ways(tmp_path, monkeypatch, clean_pairs(*files, on_bad_text=on_bad_text, max_ratio=0.0))
    assert "duplicate" in line and "too long" in line and "NUL" in line


@pytest.mark.parametrize("header", [b"", b"id\ten\tfr"])
@pytest.mark.parametrize("seed", range(2))
def test_tables_of_pairs(tmp_path, monkeypatch, seed, header):
    (tmp_path / "a.tsv").write_bytes(table_lines(seed, 3 if header else 2, header))
    (tmp_path / "b.tsv").write_bytes(b"\n\n" + table_lines(seed + 9, 2))
    (tmp_path / "c.tsv.gz").write_bytes(gzip.compress(table_lines(seed, 2)))
    (tmp_path / "d.jsonl").write_bytes(objects(seed, ("fr", "en")))
    clean = clean_pairs(*sorted(tmp_path.glob("?.*")), langs="fr-en", drop_identical=True)
    (line,) = both_ways(tmp_path, monkeypatch, clean)
    assert "duplicate" in line and ("header" in line) == bool(header)


def test_what_is_not_to_lose_its_duplicates_keeps_them(tmp_path, monkeypatch):
    (tmp_path / "a.tsv").write_bytes(b"un\tone\n" * 300)
    (line,) = both_ways(tmp_path, monkeypatch, clean_pairs(tmp_path / "a.tsv", drop_duplicates=False))
    assert line.startswith("300 pairs read: 300 kept")


def test_files_at_addresses_are_cleaned_one_by_one(tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    for seed, name in enumerate("ab"):
        (tmp_path / f"{name}.tsv").write_bytes(table_lines(seed, 2))
    addresses = [f"file://{tmp_path}/{name}.tsv" for name in "ab"]
    both_ways(tmp_path, monkeypatch, clean_pairs(*addresses))
    found = cuts.cut_pairs(find_pair_sources(addresses), 1500)
    assert [[file.address for file in segment.files] for segment in found] == [[each] for each in addresses]
    assert not clean_segments.can_be_shared(find_sources_in_memory())


def find_sources_in_memory():
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/pairs.tsv", b"un\tone\n")
    return find_pair_sources(["memory://pairs.tsv"])


def clean_texts(path, labelling, shuffled, **options):
    settings = LabelSettings((str(path),), **{"on_bad_text": "drop", **options})
    return lambda store, say: clean_labelled(settings, labelling, store, say, shuffled)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("header", [b"", b"text\tlabel\tid"])
def test_labelled_texts(tmp_path, monkeypatch, header, shuffled):
    (tmp_path / "a.tsv").write_bytes(table_lines(5, 3 if header else 2, header))
    both_ways(tmp_path, monkeypatch, clean_texts(tmp_path / "a.tsv", OF_TEXTS, shuffled))


def test_labelled_objects(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_bytes(objects(4, ("label", "text")))
    both_ways(tmp_path, monkeypatch, clean_texts(tmp_path / "a.jsonl", OF_TEXTS, True))


def tagged(seed: int, suffix: str) -> bytes:
    chance, made = np.random.default_rng(seed), []
    for _ in range(150):
        known = ["the", "cat"] if suffix == "txt" else ["the", "cat", "naïve", "x y"]
        words = chance.choice(known, chance.integers(0, 6))
        if suffix == "txt":
            made.append(" ".join(f"{word}/{word[0].upper()}" for word in words))
            continue
        rows = [f"{place}\t{word}\t_\tT{len(word)}" + "\t_" * 6 if suffix == "conllu" else f"{word}\tT{len(word)}"
                for place, word in enumerate(words, 1)]
        made += ["# a comment"] * (suffix == "conllu") + rows + ["one" * 150] * int(chance.integers(0, 20) == 0)
        made += [""] * int(chance.integers(1, 4))
    return "\n".join(made).encode()


@pytest.mark.parametrize("suffix", ["conll", "conllu", "txt"])
@pytest.mark.parametrize("seed", range(3))
def test_sentences_of_tagged_words(tmp_path, monkeypatch, suffix, seed):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(tagged(seed, suffix))
    both_ways(tmp_path, monkeypatch, clean_texts(path, OF_WORDS, False))
    (source,) = find_labelled_sources([path], OF_WORDS)
    found = cuts.cut_labelled([source], 300)
    assert len(found) > 3 and sum(each.size for each in found) == path.stat().st_size


# ------------------------------------------------------------------------------------------------ planted bugs


@pytest.mark.parametrize("bug", [
    (two_fields, "rows_before", lambda source, on_bad_text: ()),              # each part has a header of its own
    (clean_segments, "find_firsts", lambda parts: [                           # duplicates within a segment alone
        clean_segments_firsts([part])[0] for part in parts]),
    (cuts, "finish_line", lambda stream: None),                               # cut inside a line
    (clean_segments, "add_tally", lambda tally, part, mask: tally.add(clean_segments.Tally(1, 1)))])
def test_a_planted_bug_is_seen(tmp_path, monkeypatch, bug):
    (tmp_path / "a.tsv").write_bytes(table_lines(1, 3, b"id\ten\tfr"))
    owner = pair_readers if bug[1] == "rows_before" else bug[0]
    monkeypatch.setattr(owner, *bug[1:])
    with pytest.raises((AssertionError, DataError)):
        both_ways(tmp_path, monkeypatch, clean_pairs(tmp_path / "a.tsv", langs="fr-en"))


clean_segments_firsts = clean_segments.find_firsts


# ------------------------------------------------------------------------------------- mistakes, interruptions


@pytest.mark.parametrize(("lines", "said"), [
    ([b"good\tline"] * 400 + [b"bad\xff\tline"], r"a.tsv line 401, byte 4 \(0xff\) is not UTF-8"),
    ([b"good\tline"] * 400 + [b"one\ttwo\tthree"], r"a.tsv line 401 has 3 columns where the lines before have 2"),
    ([b"good\tline"] * 400 + [b"one"], r"a.tsv line 401 has no tab")])
def test_a_mistake_names_the_line_of_the_file(tmp_path, monkeypatch, lines, said):
    (tmp_path / "a.tsv").write_bytes(end_lines(lines))
    cut_at(monkeypatch, 500)
    with pytest.raises(DataError, match=said):
        clean_pairs(tmp_path / "a.tsv", on_bad_text="fail")(Cache(tmp_path / "cache"), SILENT)


def test_files_of_different_length_are_refused_before_anything_is_cleaned(tmp_path, monkeypatch):
    (tmp_path / "a.fr").write_bytes(b"un\n" * 500)
    (tmp_path / "a.en").write_bytes(b"one\n" * 499)
    cut_at(monkeypatch, 500)
    with pytest.raises(DataError, match=r"a.fr has 500 lines and .*a.en has 499 lines"):
        clean_pairs(tmp_path / "a.fr", tmp_path / "a.en")(Cache(tmp_path / "cache"), SILENT)
    assert not (tmp_path / "cache" / "segments").exists()


def test_files_of_which_nothing_is_fit_are_refused(tmp_path, monkeypatch):
    (tmp_path / "a.tsv").write_bytes(b"\tnothing\n" * 300)
    cut_at(monkeypatch, 500)
    with pytest.raises(DataError, match=r"there are no pairs left from .*\(300 pairs read: 0 kept, 300 dropped"):
        clean_pairs(tmp_path / "a.tsv")(Cache(tmp_path / "cache"), SILENT)


class Stopped(BaseException):
    """Stands for Ctrl-C."""


def test_an_interrupted_cleaning_goes_on_where_it_was(tmp_path, monkeypatch):
    clean = clean_pairs(*write_aligned(tmp_path, 3))
    cut_at(monkeypatch, 500)
    done: list[str] = []

    def stop_after(number):
        def act(order):
            if len(done) == number:
                raise Stopped
            done.append(order["path"])
            return clean_worker.answer(order)
        monkeypatch.setattr(clean_segments, "answer", act)

    said: list[str] = []
    with workers.use_workers(1):
        clean(Cache(tmp_path / "whole"), SILENT)
        for number in (3, 7):
            stop_after(number)
            with pytest.raises(Stopped):
                clean(Cache(tmp_path / "cache"), SILENT)
        damaged = Path(done[0]) / "source.txt"
        damaged.write_bytes(damaged.read_bytes()[:-2] + b"?\n")
        stop_after(10**9)
        clean(Cache(tmp_path / "cache"), said.append)
    assert said[0].startswith("cleaning: going on, 6 of ")
    assert sorted(done) == sorted([*{*done}, done[0]])                       # each once, but for the damaged one
    assert sealed(tmp_path / "cache") == sealed(tmp_path / "whole")


def test_two_workers_clean_what_one_process_cleans(tmp_path, monkeypatch):
    (tmp_path / "a.tsv").write_bytes(b"".join(
        f"le chat numéro {n % 900}\tthe cat number {n % 900}\n".encode() for n in range(2000)))
    clean = clean_pairs(tmp_path / "a.tsv")
    cut_at(monkeypatch, None)
    clean(Cache(tmp_path / "whole"), SILENT)
    cut_at(monkeypatch, 20_000)
    with workers.use_workers(2):
        clean(Cache(tmp_path / "cut"), SILENT)
    assert sealed(tmp_path / "cut") == sealed(tmp_path / "whole")
    with workers.use_workers(2), pytest.raises(DataError, match=r"a.tsv line 2001, byte 1"):
        (tmp_path / "a.tsv").write_bytes((tmp_path / "a.tsv").read_bytes() + b"\xff\ta\n")
        clean_pairs(tmp_path / "a.tsv", on_bad_text="fail")(Cache(tmp_path / "cut"), SILENT)
