"""The cache believes nothing: whatever is damaged in it, what is opened is what was made, and no error is raised."""

import os
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from regard import storage
from regard.data import embedded
from regard.data.pairs.pair_corpus import PairTokenizerSettings, prepare_pairs
from regard.data.pairs.pairs import PairSettings
from regard.data.pictures import picture_corpus
from regard.data.pictures.picture_corpus import prepare_captioned
from regard.data.pictures.pictures import PictureDataSettings
from regard.data.reading import seals
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.errors import DataError

LINES = [f"the {animal} saw {number} birds" for animal in ("cat", "dog", "owl") for number in range(9)]
COLOURS = ["red", "green", "blue", "white"]


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def text(folder, say):
    return prepare(DataSettings((write_lines(folder / "a.txt", LINES),)), TokenizerSettings("bpe", 300), say=say)


def embedded_text(folder, say):
    return prepare(DataSettings(("ab",)), TokenizerSettings(), say=say)


def pairs(folder, say):
    files = (write_lines(folder / "a.fr", LINES), write_lines(folder / "a.en", [line.upper() for line in LINES]))
    return prepare_pairs(PairSettings(files), PairTokenizerSettings("word", shared=False), say=say)


def embedded_pairs(folder, say):
    return prepare_pairs(PairSettings(("phrasebook",)), PairTokenizerSettings(), say=say)


def pictures(folder, say):
    for colour in COLOURS:
        Image.new("RGB", (8, 8), colour).save(folder / f"{colour}.png")
    (folder / "captions.tsv").write_text("".join(f"{colour}.png\ta {colour} square\n" for colour in COLOURS))
    return prepare_captioned(PictureDataSettings((str(folder),), size=8), TokenizerSettings("word"), say=say)


def embedded_pictures(folder, say):
    return prepare_captioned(PictureDataSettings(("shapes",)), TokenizerSettings(), say=say)


CORPORA = {made.__name__: made for made in (text, embedded_text, pairs, embedded_pairs, pictures, embedded_pictures)}
KINDS = {"text": {"surveys", "tokenizers", "shards"}, "embedded_text": {"embedded", "surveys", "tokenizers", "shards"},
         "pairs": {"pairs", "surveys", "tokenizers", "shards"}, "pictures": {"pictures", "tokenizers"},
         "embedded_pairs": {"embedded", "pairs", "surveys", "tokenizers", "shards"},
         "embedded_pictures": {"pictures", "captions", "tokenizers"}}


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Embedded corpora of a few lines, an own folder to work in, and no wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setitem(embedded.CORPORA, "ab", replace(embedded.CORPORA["ab"], count=200))
    monkeypatch.setitem(embedded.PAIRED, "phrasebook", replace(embedded.PAIRED["phrasebook"], count=60))
    monkeypatch.setattr(picture_corpus, "DRAWN", {"train": 5, "valid": 2, "unseen": 2})
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    return tmp_path / "data"


def seen(corpus):
    """All that training takes from a corpus, copied."""
    held = {"held_out": corpus.held_out(99)} if hasattr(corpus, "held_out") else {}
    if hasattr(corpus, "captions"):
        held = {"captions": corpus.captions} | {
            part: (sources.images.tolist(), sources.rows.tolist())
            for part, sources in (("train", corpus.source_train), ("valid", corpus.source_valid))}
    elif hasattr(corpus, "source_train"):
        held |= {part: (shard.tokens.tolist(), shard.ends.tolist())
                 for part, shard in (("train", corpus.source_train), ("valid", corpus.source_valid))}
    return held | {"shards": [(shard.tokens.tolist(), shard.ends.tolist(), shard.counts) for shard in
                              (corpus.train, corpus.valid)],
                   "tokenizer": corpus.tokenizer.digest(), "tally": corpus.tally.to_dict(), "content": corpus.content}


def flip(path, position, bit=0):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def files_of(cache):
    return sorted(path for path in cache.rglob("*") if path.is_file())


DAMAGE = {
    "first bit": lambda path: flip(path, 0),
    "middle": lambda path: flip(path, path.stat().st_size // 2, 3),
    "late": lambda path: flip(path, 9 * path.stat().st_size // 10, 6),
    "last bit": lambda path: flip(path, -1, 7),
    "half": lambda path: path.write_bytes(path.read_bytes()[:path.stat().st_size // 2]),
    "one byte less": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "one byte more": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "nothing in it": lambda path: path.write_bytes(b""),
    "another type": lambda path: path.write_bytes(b"[1, 2]"),
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


def groups(cache):
    """Files of which no two belong to one entry: the first of every entry, then the second ..."""
    entries = [sorted(entry.iterdir()) if entry.is_dir() else [entry]
               for kind in sorted(cache.iterdir()) for entry in sorted(kind.iterdir())]
    return [[files[number] for files in entries if number < len(files)] for number in range(max(map(len, entries)))]


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_from_a_damaged_cache_equals_the_undamaged_one(name, small, own_cache):
    expected = seen(CORPORA[name](small, lambda line: None))
    assert {path.name for path in own_cache.iterdir()} == KINDS[name]
    for paths in groups(own_cache):
        for damage, spoil in DAMAGE.items():
            said = []
            for path in paths:
                spoil(path)
            assert seen(CORPORA[name](small, said.append)) == expected, (damage, paths)
            again = [line for line in said if line.endswith("making it again")]
            if damage != "missing":
                assert len(again) == len(paths), (damage, paths, said)
            assert all(path.is_file() for path in paths)
    said = []
    assert seen(CORPORA[name](small, said.append)) == expected
    assert not any("again" in line for line in said)                             # mended for good


def test_an_entry_in_whose_place_something_else_stands_is_made_again(small, own_cache):
    expected = seen(text(small, lambda line: None))
    for entry in [entry for kind in own_cache.iterdir() for entry in kind.iterdir()]:
        for stands in ("a file", "an empty folder", "a link to nothing"):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            if stands == "a file":
                entry.write_text("{}")
            elif stands == "an empty folder":
                entry.mkdir()
            else:
                entry.symlink_to("nowhere")
            assert seen(text(small, lambda line: None)) == expected, (entry, stands)


def test_an_entry_of_before_there_were_seals_is_made_again(small, own_cache):
    corpus = text(small, lambda line: None)
    expected = seen(corpus)
    (corpus.train.path / seals.SUMS).unlink()
    flip(corpus.train.path / "tokens.bin", 0)
    said = []
    assert seen(text(small, said.append)) == expected
    assert sum("SHA256SUMS is missing" in line for line in said) == 1


def test_a_file_too_many_is_seen(small, own_cache):
    path = text(small, lambda line: None).train.path
    (path / "more.bin").write_bytes(b"?")
    with pytest.raises(DataError, match=r"is damaged \(more.bin does not match\): remove it"):
        seals.check_folder(path)


def test_trainings_started_together_on_a_damaged_cache_all_get_the_same(small, own_cache):
    expected = seen(pairs(small, lambda line: None))
    for turn in range(5):
        for path in files_of(own_cache):
            flip(path, turn)
        found, start = [], threading.Barrier(4)

        def train(found=found, start=start):
            start.wait()
            found.append(seen(prepare_pairs(
                PairSettings((str(small / "a.fr"), str(small / "a.en"))),
                PairTokenizerSettings("word", shared=False), say=lambda line: None)))

        threads = [threading.Thread(target=train) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert found == [expected] * 4
    assert not list(own_cache.rglob(f"{storage.TEMPORARY}*"))


def test_what_another_just_made_whole_is_not_removed(tmp_path):
    def fill(folder):
        storage.write_part(folder / "a", "whole")

    def is_whole(there):
        return seals.opens(seals.check_folder, there)

    path = seals.write_folder(tmp_path / "entry", fill, seals.check_folder)
    storage.discard(path, is_whole)
    assert seals.check_folder(path) == path
    flip(path / "a", 0)
    storage.discard(path, is_whole)
    assert not path.exists() and not list(tmp_path.glob(f"{storage.TEMPORARY}*"))
    storage.discard(path, is_whole)                                              # another was quicker: nothing to do


def test_nobody_settles_an_entry_while_another_looks_at_it(tmp_path):
    looked = []

    def fill(folder):
        storage.write_part(folder / "a", "whole")

    def look(there):
        settling.start()
        settling.join(0.3)
        looked.append(settling.is_alive())                                       # it waits until this one is gone
        return False

    path = tmp_path / "entry"
    path.mkdir()
    settling = threading.Thread(target=lambda: seals.write_folder(path, fill, seals.check_folder))
    storage.discard(path, look)
    settling.join()
    assert looked == [True] and seals.check_folder(path) == path


def test_a_value_comes_back_only_as_it_was_written(tmp_path):
    value = {"words": ["é", "\u2028"], "number": 1.5}
    path = tmp_path / "value"
    assert seals.write_value(path, value) == value == seals.load_value(path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        flip(path, position, position % 8)
        with pytest.raises(DataError, match="is damaged"):
            seals.load_value(path)
        path.write_bytes(whole)


def test_sums_are_those_of_sha256sum(small):
    (small / "b").write_bytes(b"")
    (small / "a").write_bytes(b"abc")
    assert seals.sums(small) == (                                             # FIPS 180-2, its examples
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n")


def test_a_shard_keeps_its_pages_after_its_entry_is_gone(small, own_cache):
    corpus = text(small, lambda line: None)
    before = corpus.train.tokens.copy()
    storage.discard(corpus.train.path, lambda there: False)
    assert np.array_equal(corpus.train.tokens, before)
