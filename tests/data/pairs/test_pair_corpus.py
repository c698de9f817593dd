"""A corpus of pairs: both sides stay together, whatever was dropped, and nothing leaks from what is held out."""

import gzip
from dataclasses import replace
from itertools import pairwise

import pytest

from regard.data.pairs.pair_corpus import PairTokenizerSettings, prepare_pairs
from regard.data.pairs.pairs import PairSettings
from regard.data.tokens.vocabulary import SOURCE, TokenizerPair
from regard.errors import DataError

PAIRS = [(f"le chat numéro {at} dort", f"the cat number {at} sleeps") for at in range(40)]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return write(tmp_path, "train", PAIRS)


def write(folder, name, pairs):
    paths = [folder / f"{name}.fr", folder / f"{name}.en"]
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return tuple(map(str, paths))


def made(files, tokenizer=None, **settings):
    tokenizer = tokenizer or PairTokenizerSettings("word")
    return prepare_pairs(PairSettings(files, **settings), tokenizer, say=lambda _: None)


def texts(shard, tokenizer):
    starts = [0, *shard.ends.tolist()]
    return [tokenizer.decode(shard.tokens[a:b]) for a, b in pairwise(starts)]


def test_the_last_tenth_is_held_out_on_both_sides(files):
    corpus = made(files)
    t = corpus.tokenizer
    both = list(zip(texts(corpus.source_train, t.source), texts(corpus.train, t.target), strict=True))
    assert both == PAIRS[:36] and corpus.langs == "fr-en" and corpus.documents == "pair"
    assert [(pair.source, pair.target) for pair in corpus.held_out(100)] == PAIRS[36:]


def test_pairs_are_dropped_together(tmp_path, files):
    spoilt = [*PAIRS[:10], ("une ligne seule", ""), PAIRS[3], *PAIRS[10:]]
    corpus = made(write(tmp_path, "spoilt", spoilt), valid=files)
    t = corpus.tokenizer
    assert list(zip(texts(corpus.source_train, t.source), texts(corpus.train, t.target), strict=True)) == PAIRS
    assert dict(corpus.tally.dropped) == {"empty side": 1, "duplicate": 1}


def test_nothing_is_left_out_of_what_is_measured_on(tmp_path, files):
    long = ("mot " * 300, "word")                                  # too long, and too unlike, to learn from
    corpus = made(files, valid=write(tmp_path, "valid", [PAIRS[0], PAIRS[0], long]))
    assert len(corpus.valid.ends) == len(corpus.source_valid.ends) == 3
    assert corpus.held_out(1)[0].target == PAIRS[0][1] and len(corpus.held_out(2)) == 2


def test_the_tokenizer_learns_from_the_training_part_alone(tmp_path):
    files = write(tmp_path, "train", [*PAIRS[:36], *[("secret", "hidden")] * 4])
    corpus = made(files, drop_duplicates=False)
    assert corpus.tokenizer.source.encode("secret").tolist() == [3]
    assert corpus.tokenizer.target.encode("hidden").tolist() == [3]


def test_one_tokenizer_serves_both_languages_or_each_has_its_own(files, tmp_path):
    one = made(files, PairTokenizerSettings("word"))
    two = made(files, PairTokenizerSettings("word", shared=False))
    assert one.tokenizer.shared and one.tokenizer.vocab_size > two.tokenizer.vocab_size and not two.tokenizer.shared
    for name, corpus in (("one", one), ("two", two)):
        folder = tmp_path / name
        folder.mkdir()
        corpus.tokenizer.save(folder)
        assert (folder / SOURCE).exists() == (name == "two")
        again = TokenizerPair.load(folder)
        assert again.shared == corpus.tokenizer.shared and again.digest() == corpus.tokenizer.digest()


def test_what_was_read_once_is_read_from_the_cache(files, monkeypatch):
    first = made(files)
    monkeypatch.setattr("regard.data.pairs.pair_corpus.write_sides", None)
    assert made(files).content == first.content


def test_the_content_is_of_the_text_and_not_of_the_names(files, tmp_path):
    packed = tuple(f"{name}.gz" for name in files)
    for name, other in zip(files, packed, strict=True):
        with open(name, "rb") as plain, gzip.open(other, "wb") as small:
            small.write(plain.read())
    one, other = made(packed), made(files)
    assert texts(one.train, one.tokenizer.target) == texts(other.train, other.tokenizer.target)
    assert made(write(tmp_path, "other", PAIRS[:-1])).content != made(files).content


def test_a_half_written_cache_is_not_taken_for_a_whole_one(files, monkeypatch, tmp_path):
    def fails(settings, tally, sources):
        yield from ()
        raise DataError("the disk went away")

    monkeypatch.setattr("regard.data.pairs.pair_corpus.read_pairs", fails)
    with pytest.raises(DataError, match="went away"):
        made(files)
    monkeypatch.undo()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    assert len(made(files).train.ends) == 36 and not list((tmp_path / "cache" / "pairs").glob(".part*"))


def test_the_phrasebook_is_there_by_name(files, monkeypatch):
    from regard.corpora import phrasebook
    from regard.data import embedded

    monkeypatch.setitem(embedded.PAIRED, "phrasebook", replace(embedded.PAIRED["phrasebook"], count=200))
    corpus = prepare_pairs(PairSettings(("phrasebook",)), PairTokenizerSettings(), say=lambda _: None)
    assert corpus.tokenizer.kind == "word" and not corpus.tokenizer.shared and corpus.langs == "fr-en"
    assert (len(corpus.train.ends), len(corpus.valid.ends)) == (200, 20)
    assert corpus.held_out(20)[0].source == next(phrasebook.pairs(1, 0, "valid")).source
