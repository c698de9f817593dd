"""Subwords cut anew: the tokenizer's own cut when nothing is dropped, always the same text, equal to the definition."""

import gzip
import os
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora import stories
from regard.data.batching.shuffle import key_of
from regard.data.reading.readers import TextPiece
from regard.data.reading.shards import Counts, Shard, write_shard
from regard.data.tokens.subword_dropout import DRAWS, LONGEST, NEVER, Merges, Recut, cut_word, drops
from regard.data.tokens.subwords import CHUNKS
from regard.data.tokens.tokenizers import train_tokenizer
from regard.errors import SettingError

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
NO_DATA = "needs the public data sets: REGARD_DATA names their folder"
EOS = 2
ODD = ["“Naïve café” — l’été, 3.14 €… où ça ?", "你好，世界! 再见，世界! 人人人人人人人", "👩‍👩‍👧 👍🏽🎉🎉",
       "<eos> <unk>\tend\n\n  x_y don't",
       "", " ", "\u00a0\u2009 \u3000x\u2028y", "it's we'll 'tis ''s", "1234567890 12 007", "a" * 200, "ääääääää" * 12,
       "\0\x7f\ufeff", "the the the the"]
STORIES = list(stories.generate(120))
TEXTS = [*STORIES, *ODD]
anything = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from("the man é😀你\n\u2028 '1s"))


@cache
def trained(kind="bpe", vocab=800):
    return train_tokenizer(kind, TEXTS, vocab if kind in ("bpe", "unigram") else None)


def shard_of(texts, tokenizer=None):
    tokens, ends = (tokenizer or trained()).encode_lines(texts)
    return Shard(Path("none"), tokens.astype(np.uint16), ends.astype(np.uint64), Counts(len(tokens), len(ends)), "", "")


def documents(shard):
    return np.split(shard.tokens, shard.ends[:-1].astype(np.int64))


def texts_of(shard):
    return [trained().decode(document) for document in documents(shard)]


@cache
def recut():
    return Recut(trained(), shard_of(TEXTS))


def test_nothing_dropped_is_the_tokenizers_own_cut():
    shard, same = shard_of(TEXTS), recut().cut(0.0, key=5)
    assert same.tokens.tolist() == shard.tokens.tolist() and same.ends.tolist() == shard.ends.tolist()
    assert (same.tokens.dtype, same.ends.dtype, same.counts) == (shard.tokens.dtype, shard.ends.dtype, shard.counts)


@given(texts=st.lists(anything, max_size=4))
def test_any_text_is_cut_as_the_tokenizer_does_or_comes_back_from_another_cut(texts):
    shard = shard_of(texts)
    ready = Recut(trained(), shard)
    assert ready.cut(0.0, key=1).tokens.tolist() == shard.tokens.tolist()
    for share in (0.1, 0.6, 1.0):
        cut = ready.cut(share, key=1)
        assert len(cut.ends) == len(texts) and (not texts or texts_of(cut) == texts)


def test_wrong_ranks_are_noticed():
    """The planted bug: merges taken in the opposite order."""
    ready = Recut(trained(), shard_of(TEXTS))
    last = len(ready.merges.made) - 1
    ready.ranks = np.where(ready.ranks == NEVER, NEVER, last - ready.ranks).astype(np.int32)
    ready.merges.made = ready.merges.made[::-1]
    ready.merges._ranks = np.where(ready.merges._ranks == NEVER, NEVER, last - ready.merges._ranks).astype(np.int32)
    wrong = ready.cut(0.0, key=5)
    assert texts_of(wrong) == TEXTS and wrong.tokens.tolist() != shard_of(TEXTS).tokens.tolist()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_all_rows_at_once_are_cut_as_the_definition_cuts_each(share):
    ready, key = recut(), 11
    fast = ready._cut_rows(share, key)
    for begin, length in zip(ready.begins.tolist(), ready.lengths.tolist(), strict=True):
        row = ready.pieces[begin:begin + length].tolist()

        def dropped(turn, place, begin=begin):
            return bool(drops(np.array([begin + place]), share, key_of(key, turn))[0])

        found = fast[begin:begin + length]
        assert found[found >= 0].tolist() == cut_word(row, ready.merges, dropped)


def test_the_definition_without_dropping_is_the_tokenizer():
    merges = Merges(trained())
    for word in (" little", "naïve", " 人人人人人", "aaaaaaa", " 1990", "''"):
        pieces = merges.of_byte[list(word.encode())].tolist()
        assert cut_word(pieces, merges, lambda turn, place: False) == trained().encode(word).tolist()


def test_everything_dropped_leaves_bytes():
    texts = [text for text in TEXTS if len(text) < LONGEST / 4]
    cut = Recut(trained(), shard_of(texts)).cut(1.0, key=0)
    for text, document in zip(texts, documents(cut), strict=True):
        assert len(document) == len(text.encode()) + 1 and document[-1] == EOS


def test_a_very_long_word_keeps_the_tokenizers_cut():
    text, long = "b" + "ab" * 31, "世界" * 30             # 63 bytes, and 180
    cut = Recut(trained(), shard_of([text, long])).cut(1.0, key=0)
    short, kept = documents(cut)
    assert len(short) == len(text) + 1 and kept.tolist() == [*trained().encode(long), EOS]


def test_a_cut_depends_on_the_key_alone():
    again = Recut(trained(), shard_of(TEXTS))
    one, same, other = recut().cut(0.2, 3), again.cut(0.2, 3), recut().cut(0.2, 4)
    assert one.tokens.tolist() == same.tokens.tolist() and one.ends.tolist() == same.ends.tolist()
    assert one.tokens.tolist() != other.tokens.tolist()
    assert texts_of(one) == texts_of(other) == TEXTS
    assert recut().cut(0.2, 3).tokens.tolist() == one.tokens.tolist()        # a cut leaves nothing behind


def test_more_is_dropped_more_is_cut():
    lengths = [len(recut().cut(share, 1)) for share in (0.0, 0.05, 0.1, 0.3, 0.6, 1.0)]
    assert lengths == sorted(set(lengths))


def test_a_single_merge_is_dropped_as_often_as_was_asked():
    (left, right), rank = next(iter(Merges(trained()).rank_of.items()))
    word = trained().decode([left, right])
    ready = Recut(trained(), shard_of([word] * DRAWS))
    merged = int(ready.merges.made[rank])
    found = np.concatenate([ready.cut(0.3, key).tokens for key in range(250)])
    whole, apart = np.count_nonzero(found == merged), np.count_nonzero(found == left)
    assert whole + apart == 250 * DRAWS
    assert apart / (whole + apart) == pytest.approx(0.3, abs=0.03)          # four standard errors


def test_one_word_is_cut_in_several_ways_at_once():
    ready = Recut(trained(), shard_of([" remember"] * 3 * DRAWS))
    cuts = [tuple(document) for document in documents(ready.cut(0.3, 0))]
    assert len(set(cuts)) > 5
    assert cuts[:DRAWS] == cuts[DRAWS:2 * DRAWS]             # beyond so many, the draws come round again


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_as_much_is_cut_as_when_each_occurrence_draws_its_own_numbers(share):
    """The same draws in turn for frequent words, and hashes for chance, leave the mean as the definition has it."""
    draw, ready = random.Random(0), Recut(trained(), shard_of(STORIES))
    words = [word for text in STORIES for word in re.findall(CHUNKS, text)]
    expected = sum(len(cut_word(ready.merges.of_byte[list(word.encode())].tolist(), ready.merges,
                                lambda turn, place: draw.random() < share)) for word in words)
    ours = np.mean([len(ready.cut(share, key)) - len(STORIES) for key in range(20)])
    assert ours == pytest.approx(expected, rel=0.015)


def test_a_text_that_was_cut_off_gets_no_end_and_a_shard_from_disk_is_read(tmp_path):
    pieces = [TextPiece("They went to ", False), TextPiece("the mill.", True), TextPiece("", True),
              TextPiece("She was", False)]
    shard = write_shard(tmp_path / "shard", pieces, trained())
    ready = Recut(trained(), shard)
    assert ready.cut(0.0, 0).ends[1:].tolist() == (shard.ends[1:] - shard.ends[0] + ready.cut(0.0, 0).ends[0]).tolist()
    cut = ready.cut(0.5, 0)
    assert texts_of(cut) == ["They went to the mill.", "", "She was"]
    assert [document[-1] == EOS for document in documents(cut)] == [True, True, False]
    assert cut.tokenizer == shard.tokenizer and cut.counts == replace(shard.counts, tokens=len(cut))


def test_nothing_at_all_stays_nothing():
    cut = Recut(trained(), shard_of([])).cut(0.5, 0)
    assert len(cut) == len(cut.ends) == 0


def test_a_vocabulary_without_merges_is_bytes():
    bare = trained(vocab=260)
    assert bare.kind == "bpe" and Recut(bare, shard_of(["the mill"], bare)).cut(0.5, 0).tokens.size == 9


@pytest.mark.parametrize("kind", ["char", "byte", "whitespace", "word", "unigram"])
def test_other_tokenizers_are_refused(kind):
    tokenizer = trained(kind)
    with pytest.raises(SettingError, match=r"training\.subword_dropout needs tokenizer\.kind = 'bpe', and it is "
                                           f"'{kind}'"):
        Recut(tokenizer, shard_of(["the mill"], tokenizer))


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(SettingError, match=rf"training\.subword_dropout = {share} is not a share"):
        recut().cut(share, 0)


def test_a_shard_of_another_tokenizer_is_our_mistake():
    with pytest.raises(AssertionError, match="another tokenizer"):
        Recut(trained(), replace(shard_of(["the mill"]), tokenizer="f00"))


@pytest.mark.parametrize("language", ["fr", "de"])
def test_real_sentences_are_cut_and_come_back(language):
    path = DATA / "multi30k" / f"val.{language}.gz"
    if not path.exists():
        pytest.skip(NO_DATA)
    texts = gzip.decompress(path.read_bytes()).decode().split("\n")
    shard = shard_of(texts)
    ready = Recut(trained(), shard)
    assert ready.cut(0.0, 0).tokens.tolist() == shard.tokens.tolist()
    assert texts_of(ready.cut(0.1, 0)) == texts
