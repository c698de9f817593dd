"""Words found all at once are the words found one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tokens import word_index
from regard.data.tokens.vocabulary import EOS
from regard.data.tokens.word_index import BLOCK, WordIndex
from regard.data.tokens.words import WhitespaceTokenizer

WORDS = ["the", "cat", "cats", "c", "été", "日本", "a" * 40, "<eos>x", "tac", "act"]


@given(st.lists(st.sampled_from([*WORDS, "dog", "eth", "\u00a0", "été́", "th e", "", "\t", "\n"])))
def test_words_are_found_as_one_by_one(words):
    text, tokenizer = " ".join(words), WhitespaceTokenizer(WORDS)
    assert WordIndex(WORDS).encode(text.encode()).tolist() == tokenizer.encode_by_definition(text).tolist()


@given(st.text())
def test_any_text_at_all(text):
    text = text.encode("utf-8", "replace").decode()
    words = sorted({*WhitespaceTokenizer([]).split(text)})[::2]
    expected = WhitespaceTokenizer(words).encode_by_definition(text)
    assert WordIndex(words).encode(text.encode()).tolist() == expected.tolist()


@pytest.mark.parametrize("lines", [[""], ["", ""], ["the cat", "", " cats  dog "], ["the"] * 7])
def test_lines_end_with_their_mark(lines):
    tokens, ends = WordIndex(WORDS).encode_lines("".join(f"{line}\n" for line in lines).encode())
    expected = [[*WhitespaceTokenizer(WORDS).encode_by_definition(line), EOS] for line in lines]
    assert [part.tolist() for part in np.split(tokens, ends[:-1])] == expected and ends[-1] == len(tokens)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_blocks_cut_no_word_and_a_giant_word_is_one(monkeypatch, threads):
    monkeypatch.setattr(word_index, "BLOCK", 8)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    text = "the cat été " + "a" * 40 + " the\ncats " * 5 + "b" * 100
    index, tokenizer = WordIndex(WORDS), WhitespaceTokenizer(WORDS)
    assert index.encode(text.encode()).tolist() == tokenizer.encode_by_definition(text).tolist()
    tokens, ends = index.encode_lines((text + "\n").encode())
    expected = [[*tokenizer.encode_by_definition(line), EOS] for line in text.split("\n")]
    assert [part.tolist() for part in np.split(tokens, ends[:-1])] == expected


def test_many_words_are_told_apart():
    words = [f"{a}{b}" for a in range(300) for b in "abcdefghijklmnopqrstuvwxyz"]
    index = WordIndex(words)
    assert index.distinct and index.encode(" ".join(words).encode()).tolist() == list(range(4, 4 + len(words)))
    assert (WordIndex(words[::2]).encode(" ".join(words[1::2]).encode()) == 3).all()


LIKE = ["abcdefg", "abcdefgh", "abcdefghi", "abcdefghabcdefgh", "abcdefghabcdefghi", "a\0", "a\0\0", "\0", "abcdefgh\0"]


@pytest.mark.parametrize("unknown", LIKE)
def test_words_alike_up_to_their_end_or_to_a_multiple_of_eight_bytes_are_told_apart(unknown):
    """Also from known words that they begin with, and the longer ones than any that is known."""
    known = [word for word in LIKE if word != unknown]
    expected = WhitespaceTokenizer(known).encode_by_definition(" ".join([*LIKE, "abcdefghi" * 9, "a"])).tolist()
    assert expected.count(3) == 3
    assert WordIndex(known).encode(" ".join([*LIKE, "abcdefghi" * 9, "a"]).encode()).tolist() == expected


def test_a_text_of_two_lines_ends_once():
    tokenizer, texts = WhitespaceTokenizer(["the", "cat"]), ["the cat", "the\ncat"] * 2000
    tokens, ends = tokenizer.encode_lines(texts)
    assert tokens.tolist() == [4, 5, EOS] * 4000 and ends.tolist() == list(range(3, 12001, 3))


def test_no_words_are_known_at_all():
    assert WordIndex([]).encode(b"the cat").tolist() == [3, 3] and WordIndex([]).encode(b"").tolist() == []


def test_a_long_text_takes_this_path_and_a_short_one_the_other():
    text = "the cat sat on the mat " * (BLOCK // 8)
    tokenizer = WhitespaceTokenizer(["the", "cat", "mat"])
    assert tokenizer.encode(text).tolist() == tokenizer.encode_by_definition(text).tolist()
    assert tokenizer.encode(text).dtype == tokenizer.encode_by_definition(text).dtype == np.int32
