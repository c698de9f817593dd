import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from regard import storage
from regard.data import embedded
from regard.data.reading import shards
from regard.data.reading.corpus import DataSettings, TokenizerSettings, encode_files, prepare, sample
from regard.data.reading.readers import ReadSettings, TextPiece
from regard.data.reading.shards import Shard, write_shard
from regard.data.reading.split import TextSpan, split, take
from regard.data.tokens.tokenizers import train_tokenizer
from regard.data.tokens.words import WhitespaceTokenizer
from regard.errors import DataError, SettingError, StorageError

TEXT = "".join(f"line {number} of a little text, né à Paris\n" for number in range(400))


def prepared(files, kind="char", vocab=0, said=None, **options):
    said = [] if said is None else said
    files = (files,) if isinstance(files, str) else tuple(files)
    return prepare(DataSettings(files, **options), TokenizerSettings(kind, vocab), say=said.append)


def whole_text(corpus):
    return corpus.tokenizer.decode(np.concatenate([corpus.train.tokens, corpus.valid.tokens]))


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
def test_one_file_is_cut_at_nine_tenths_of_its_characters(write, kind):
    corpus = prepared(write("a.txt", TEXT), kind)
    cut = int(0.9 * len(TEXT))
    assert corpus.tokenizer.decode(corpus.train.tokens) == TEXT[:cut]
    assert corpus.tokenizer.decode(corpus.valid.tokens) == TEXT[cut:]
    assert (corpus.train.counts.characters, corpus.valid.counts.characters) == (cut, len(TEXT) - cut)
    assert corpus.train.counts.bytes + corpus.valid.counts.bytes == len(TEXT.encode())
    assert corpus.documents == "file" and corpus.tokenizer.kind == kind


def test_the_half_of_a_document_has_no_end(write):
    corpus = prepared(write("a.txt", TEXT))
    assert corpus.train.tokens[-1] != corpus.tokenizer.eos
    assert corpus.valid.tokens[-1] == corpus.tokenizer.eos
    assert corpus.train.ends.tolist() == [len(corpus.train)]


def test_many_documents_are_split_between_documents(write, tmp_path):
    for number in range(20):
        write(f"texts/{number:02}.txt", f"text {number}\n")
    corpus = prepared(str(tmp_path / "texts"))
    assert (corpus.train.counts.documents, corpus.valid.counts.documents) == (18, 2)
    assert corpus.tokenizer.decode(corpus.valid.tokens) == "text 18\ntext 19\n"
    assert np.flatnonzero(corpus.train.tokens == corpus.tokenizer.eos).tolist() == (corpus.train.ends - 1).tolist()


@pytest.mark.parametrize("kind", ["whitespace", "word"])
def test_words_are_read_line_by_line(write, kind):
    corpus = prepared(write("a.txt", TEXT), kind)
    assert corpus.documents == "line"
    assert (corpus.train.counts.documents, corpus.valid.counts.documents) == (360, 40)
    assert corpus.valid.counts.words == 40 * 9
    assert corpus.valid.counts.unknown == 40           # the numbers 360 to 399


def test_nothing_leaks_from_what_is_held_out(write):
    text = "abcd " * 200 + "ЖЩ " * 30
    for kind in ("char", "whitespace", "bpe"):
        corpus = prepared(write("a.txt", text), kind, documents="file")
        assert not any("Ж" in corpus.tokenizer.token(id) for id in range(corpus.tokenizer.vocab_size))
    assert prepared(write("a.txt", text)).valid.counts.unknown == 60


def test_a_text_of_its_own_can_be_held_out(write):
    corpus = prepared(write("a.txt", "aaa bbb\n"), valid=(write("v.txt", "bbb aaa c\n"),))
    assert corpus.tokenizer.decode(corpus.train.tokens) == "aaa bbb\n"
    assert corpus.valid.counts.unknown == 1
    assert corpus.tally.read == 2


@pytest.mark.parametrize("text, options", [("x", {}), ("one line\n", {"documents": "line"})])
def test_too_little_text_names_the_cure(write, text, options):
    with pytest.raises(DataError, match="--valid FILE"):
        prepared(write("a.txt", text), **options)


def test_an_impossible_share_is_refused(write):
    with pytest.raises(SettingError, match=r"data\.valid_share 1.5"):
        prepared(write("a.txt", TEXT), valid_share=1.5)


def test_splits_have_something_on_each_side():
    for documents in range(2, 30):
        train, valid = split(1000, documents, "line", 0.1)
        assert 1 <= train.stop == valid.start < documents


def test_a_character_split_loses_nothing_wherever_it_falls():
    pieces = [TextPiece("abc", False), TextPiece("de", True), TextPiece("fgh", True)]
    for cut in range(1, 8):
        left = list(take(pieces, TextSpan("characters", 0, cut)))
        right = list(take(pieces, TextSpan("characters", cut)))
        assert "".join(piece.text for piece in left + right) == "abcdefgh"
        assert sum(piece.ends for piece in left + right) == 2


def test_the_second_time_everything_is_reused(write, monkeypatch):
    first = prepared(write("a.txt", TEXT), "bpe")
    monkeypatch.setattr("regard.data.reading.corpus.write_shard", None)           # would fail if it were called
    monkeypatch.setattr("regard.data.reading.corpus.train_tokenizer", None)
    said = []
    again = prepared(write("another name.txt", TEXT), "bpe", said=said)
    assert again.train.path == first.train.path
    assert sum("reused from the cache" in line for line in said) == 3
    assert said[0] == "400 lines read: 400 kept, 0 dropped"


def test_other_content_or_settings_make_another_shard(write):
    path = write("a.txt", TEXT)
    paths = {prepared(path).train.path, prepared(path, valid_share=0.2).train.path,
             prepared(path, documents="line").train.path, prepared(path, "byte").train.path,
             prepared(write("b.txt", TEXT + "more\n")).train.path}
    assert len(paths) == 5


@pytest.mark.parametrize("name, damage", [
    ("tokens.bin", b""), ("documents.bin", b"123"), ("shard.json", b"{"), ("shard.json", b"[]"), ("tokens.bin", None)])
def test_a_damaged_cache_is_made_again(write, name, damage):
    path = write("a.txt", TEXT)
    first = prepared(path)
    tokens, broken = first.train.tokens.copy(), first.train.path / name
    del first
    broken.unlink() if damage is None else broken.write_bytes(damage)
    assert np.array_equal(prepared(path).train.tokens, tokens)


def test_damaged_surveys_and_tokenizers_are_made_again(write, own_cache):
    path = write("a.txt", TEXT)
    prepared(path, "bpe")
    for entry in [*own_cache.glob("surveys/*"), *own_cache.glob("tokenizers/*")]:
        entry.write_text("{nonsense")
    assert whole_text(prepared(path, "bpe")) == TEXT


def test_a_full_disk_is_one_clear_line_and_leaves_nothing_half_done(write, own_cache, monkeypatch):
    path = write("a.txt", TEXT)

    def full(operation, where):
        if where.name == "tokens.bin":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "before_operation", full)
    with pytest.raises(StorageError, match=r"the disk is full.*REGARD_CACHE"):
        prepared(path)
    assert not list(own_cache.glob("shards/*")) and not list(own_cache.glob("shards/.*"))
    monkeypatch.setattr(storage, "before_operation", None)
    assert whole_text(prepared(path)) == TEXT


def test_ids_beyond_uint16_are_kept(tmp_path):
    tokenizer = WhitespaceTokenizer([f"w{number}" for number in range(70_000)])
    pieces = [TextPiece("w0 w65531 w65532 w69999", True)]
    shard = write_shard(tmp_path / "shard", pieces, tokenizer)
    assert shard.tokens.dtype == np.uint32
    assert shard.tokens.tolist() == [4, 65535, 65536, 70_003, 2]
    assert write_shard(tmp_path / "small", pieces, train_tokenizer("whitespace", ["w0"])).tokens.dtype == np.uint16


def test_a_shard_tells_what_it_holds(tmp_path):
    tokenizer = train_tokenizer("char", ["héllo wd"])
    pieces = [TextPiece("hé", False), TextPiece("llo w", True), TextPiece("Z\n", True)]
    shard = write_shard(tmp_path / "shard", pieces, tokenizer)
    about = json.loads((tmp_path / "shard" / "shard.json").read_text())
    assert about["counts"] == {"tokens": 11, "documents": 2, "bytes": 10, "characters": 9, "words": 4, "unknown": 2}
    assert about["tokenizer"] == tokenizer.digest() and len(shard.content) == 64
    assert shard.ends.tolist() == [8, 11]


def test_batches_of_pieces_change_nothing(tmp_path, monkeypatch):
    tokenizer = train_tokenizer("bpe", [TEXT], 300)
    pieces = [TextPiece(line, number % 3 == 2) for number, line in enumerate(TEXT.split("\n"))]
    whole = write_shard(tmp_path / "whole", pieces, tokenizer)
    monkeypatch.setattr(shards, "BATCH", 50)
    small = write_shard(tmp_path / "small", pieces, tokenizer)
    assert np.array_equal(whole.tokens, small.tokens) and np.array_equal(whole.ends, small.ends)


@pytest.mark.parametrize("characters, batches", [(8, [2, 2, 2, 1]), (1, [3, 3, 1]), (20, [1] * 7)])
def test_a_batch_is_full_of_characters_or_of_pieces_whichever_comes_first(characters, batches):
    groups = shards.group_by_size(["x" * characters] * 7, len, 10, 3)
    assert [len(group) for group in groups] == batches


def test_a_missing_shard_is_one_clear_line(tmp_path):
    with pytest.raises(DataError, match="is damaged"):
        Shard.open(tmp_path / "nothing")


def test_auto_chooses_characters_for_a_small_text(write):
    said = []
    assert prepared(write("a.txt", TEXT), "auto", said=said).tokenizer.kind == "char"
    assert said[1] == f"tokenizer char: {len(set(TEXT)) + 4} tokens, learned from the training part"
    many = "".join(chr(0x4E00 + number % 3000) for number in range(9000))
    assert prepared(write("b.txt", many), "auto").tokenizer.kind == "bpe"


def test_formats_can_be_mixed_and_stdin_works(write, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"from afar\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    files = ["-", write("a.txt.gz", gzip.compress(TEXT.encode())), write("b.jsonl", '"record"\n')]
    corpus = prepared(files, "byte")
    assert whole_text(corpus) == "from afar\n" + TEXT + "record"


def test_files_are_encoded_with_a_tokenizer_that_exists(write):
    tokenizer = train_tokenizer("word", ["one two three"])
    shard = encode_files([write("a.txt", "two one\n\nfour\n")], tokenizer, say=lambda line: None)
    assert shard.tokens.tolist() == [*tokenizer.encode("two one"), 2, 3, 2]
    shard = encode_files([write("a.txt", "two one\n")], tokenizer, ReadSettings("file"), say=lambda line: None)
    assert shard.counts.documents == 1


def test_only_an_embedded_corpus_has_parts(write):
    tokenizer = train_tokenizer("word", ["one two three"])
    with pytest.raises(SettingError, match=r"--part unseen is of an embedded corpus, and .*a\.txt is a file"):
        encode_files([write("a.txt", "two one\n")], tokenizer, say=lambda line: None, part="unseen")


def test_a_corpus_can_be_prepared_with_a_tokenizer_that_exists(write):
    tokenizer = train_tokenizer("byte", [])
    corpus = prepare(DataSettings((write("a.txt", TEXT),)), tokenizer, say=lambda line: None)
    assert corpus.tokenizer is tokenizer and whole_text(corpus) == TEXT


def test_a_sample_is_spread_over_the_whole():
    texts = [f"{number:04}" for number in range(1000)]
    taken = [int(text) for text in sample(iter(texts), 4000, 400)]
    assert 95 <= len(taken) <= 105 and max(np.diff(taken)) <= 11 and taken[-1] >= 985
    assert list(sample(iter(texts), 4000, 4000)) == texts


@pytest.mark.parametrize("name", embedded.CORPORA)
def test_an_embedded_corpus_is_prepared_by_name(name, monkeypatch):
    small = embedded.CORPORA[name].__class__(**{**vars(embedded.CORPORA[name]), "count": 500})
    monkeypatch.setitem(embedded.CORPORA, name, small)
    corpus = prepared(name, "auto")
    assert corpus.documents == "line" and corpus.tokenizer.kind == small.tokenizer
    assert (corpus.train.counts.documents, corpus.valid.counts.documents) == (500, 50)
    assert corpus.valid.counts.unknown <= 5


def test_a_file_wins_over_an_embedded_corpus_of_the_same_name(write, tmp_path, monkeypatch):
    write("ab", TEXT)
    monkeypatch.chdir(tmp_path)
    assert Path("ab").exists()
    assert whole_text(prepared("ab")) == TEXT
