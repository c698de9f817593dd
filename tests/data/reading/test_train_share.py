"""A share of what is learned from: its beginning, with the tokenizer and the held-out part of the whole."""

from itertools import pairwise

import pytest

from regard.data.pairs.pair_corpus import PairTokenizerSettings, prepare_pairs
from regard.data.pairs.pairs import PairSettings
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.errors import SettingError

LINES = [f"line {number} of a text" for number in range(200)] + ["zebra"] * 200
TEXT = "".join(f"{line}\n" for line in LINES)


def prepared(*files, **options):
    return prepare(DataSettings(files, **options), TokenizerSettings("char"), say=lambda line: None)


def test_one_text_is_cut_at_a_character(write):
    path = write("a.txt", TEXT)
    whole, half = prepared(path), prepared(path, train_share=0.5)
    train = whole.tokenizer.decode(whole.train.tokens)
    assert half.tokenizer.decode(half.train.tokens) == train[:len(train) // 2]
    assert half.tokenizer.digest() == whole.tokenizer.digest() and half.content == whole.content
    assert (half.valid.tokens == whole.valid.tokens).all() and len(half.valid.tokens) == len(whole.valid.tokens)


def test_lines_and_embedded_corpora_are_cut_between_documents(write):
    path = write("a.txt", TEXT)
    quarter = prepared(path, documents="line", train_share=0.25)
    starts = [0, *quarter.train.ends.tolist()]
    texts = [quarter.tokenizer.decode(quarter.train.tokens[a:b]).strip() for a, b in pairwise(starts)]
    assert texts == LINES[:90]                                       # a quarter of the first nine tenths
    own = prepared(path, documents="line", valid=(write("own.txt", "one\ntwo\n"),), train_share=0.25)
    assert own.train.counts.documents == 100
    whole, half = (prepared("ab", train_share=share) for share in (1.0, 0.5))
    assert half.train.counts.documents == whole.train.counts.documents // 2


def test_pairs_are_cut_on_both_sides_alike(write):
    files = write("a.fr", TEXT), write("a.en", TEXT.upper())
    corpus = prepare_pairs(PairSettings(files, drop_duplicates=False, train_share=0.25), PairTokenizerSettings("char"),
                           say=lambda line: None)
    assert corpus.train.counts.documents == corpus.source_train.counts.documents == 90
    assert corpus.valid.counts.documents == 40


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_an_impossible_share_is_refused(write, share):
    with pytest.raises(SettingError, match=r"data\.train_share .* is impossible: it must lie above 0 and be at most 1"):
        prepared(write("a.txt", TEXT), train_share=share)
