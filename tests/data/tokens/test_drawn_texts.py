"""The campaign of Unicode finds what is planted, and what it found stays away."""

import unicodedata
from random import Random

import pytest

from tests.data.tokens.drawn_texts import draw_text, tokenizers, wrong, wrong_words


def found(name, cases=150):
    texts = [(draw_text(chance), draw_text(chance)) for chance in map(Random, range(cases))]
    return {wrong(tokenizers()[name], *each).partition(" comes back")[0][:20] for each in texts} - {""}


@pytest.mark.parametrize("change", [
    lambda text: text.replace("\ufeff", ""), lambda text: unicodedata.normalize("NFC", text), str.rstrip,
    lambda text: text.replace("\r\n", "\n"), lambda text: text.replace("\0", " ")])
def test_a_text_that_is_rewritten_is_found(change, monkeypatch):
    tokenizer = tokenizers()["bpe of many scripts"]
    honest = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda text: honest(change(text)), raising=False)
    assert found("bpe of many scripts", 400)


def test_a_special_in_a_text_is_found(monkeypatch):
    tokenizer = tokenizers()["byte of English"]
    honest = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda text: honest(text) * ("<eos>" not in text), raising=False)
    assert found("byte of English")


def test_words_that_are_cut_otherwise_are_found():
    tokenizer = tokenizers()["word of English"]
    assert wrong_words(tokenizer, "one day") == ""
    tokenizer.words[0], tokenizer.words[1] = tokenizer.words[1], tokenizer.words[0]
    try:
        assert wrong_words(tokenizer, " ".join(tokenizer.words[:2]))
    finally:
        tokenizer.words[0], tokenizer.words[1] = tokenizer.words[1], tokenizer.words[0]


def test_tokenizers_of_other_programs_are_called_lossless_only_if_they_are():
    told = {name.removeprefix("foreign: "): each.lossless for name, each in tokenizers().items() if "foreign" in name}
    assert told == {"bytes": True, "bytes with a space before": False, "bytes of words alone": False,
                    "bytes without marks": False, "bytes of digits": True, "bytes of NFC": False, "few bytes": False}
