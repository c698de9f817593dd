"""Tokenizers by name: how to train one, choose one for a text, and read one back from tokenizer.json.

Every kind is saved in Hugging Face format; which kind it is can be told from its structure, so nothing
else has to be kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from regard.data.tokens.characters import EVERY_CHARACTER, ByteTokenizer, CharTokenizer, train_characters
from regard.data.tokens.foreign import FOREIGN, ForeignTokenizer
from regard.data.tokens.subwords import SMALLEST, SubwordTokenizer, train_subwords
from regard.data.tokens.vocabulary import FIRST, SPECIALS, StreamDecoder, Tokenizer
from regard.data.tokens.words import SPACES, WORDS, WhitespaceTokenizer, WordTokenizer, train_words
from regard.errors import DataError, SettingError, did_you_mean

__all__ = ["KINDS", "SPECIALS", "StreamDecoder", "Tokenizer", "check_kind", "choose_tokenizer", "default_vocab",
           "tokenizer_from_json", "train_tokenizer"]

KINDS = {
    "char": "each character",
    "byte": "each byte of UTF-8; lossless",
    "whitespace": "whatever stands between spaces",
    "word": "words and punctuation marks",
    "bpe": "byte pairs merged by frequency; lossless",
    "unigram": "pieces chosen by likelihood; lossless",
}

FEW_CHARACTERS = 200             # distinct ones, with which a small text is read character by character
SMALL_TEXT = 250_000             # characters: of 180,000, subwords won in a minute and lost in twenty; above, they win
# Subwords by the characters of a text, and of sentence pairs: as many as their examples allow.
OF_TEXT = ((300_000, 512), (700_000, 2048), (30_000_000, 4096), (300_000_000, 8192), (3_000_000_000, 16384))
OF_PAIRS = ((300_000, 1024), (1_500_000, 2048), (5_000_000, 4096), (15_000_000, 8192), (150_000_000, 16384),
            (1_500_000_000, 32768))


def check_kind(kind: str, vocab: int | None) -> None:
    """Refuses a kind that does not exist, and a size that it cannot have."""
    if kind not in KINDS:
        raise SettingError(f"unknown tokenizer.kind {kind!r}{did_you_mean(kind, KINDS)}")
    least = SMALLEST if kind in ("bpe", "unigram") else FIRST + 1
    if vocab is not None and not least <= vocab < 2**31:
        raise SettingError(f"tokenizer.vocab {vocab} is impossible for {kind}: give at least {least} "
                           "(4 specials come first), or 0 to have it chosen")


def train_tokenizer(kind: str, texts: Iterator[str] | Iterable[str], vocab: int | None = None) -> Tokenizer:
    """A tokenizer of this kind for these texts; `vocab` None: everything that occurs, or a size for subwords."""
    check_kind(kind, vocab)
    if kind == "byte":
        return ByteTokenizer()
    if kind == "char":
        return train_characters(texts, vocab)
    if kind in ("whitespace", "word"):
        return train_words(kind, texts, vocab)
    if vocab is None:
        texts = list(texts)
        vocab = default_vocab(sum(map(len, texts)))
    return train_subwords(kind, texts, vocab)


def choose_tokenizer(characters: int, distinct: int) -> tuple[str, int | None]:
    """The kind and size for a text of so many characters, of which so many are distinct."""
    if characters < SMALL_TEXT and distinct <= FEW_CHARACTERS:
        return "char", None
    return "bpe", default_vocab(characters)


def default_vocab(characters: int) -> int:
    """Return the subwords for a text of so many characters.

    In a minute on a core 4,096 beat 1,024 by 1% on a megabyte of plays, by 3% on 3 MB of documentation.
    """
    return next((vocab for limit, vocab in OF_TEXT if characters < limit), 32768)


def pair_vocab(characters: int) -> int:
    """Return the subwords for sentence pairs, by the characters that they are learned from."""
    return next((vocab for limit, vocab in OF_PAIRS if characters < limit), 65536)


def tokenizer_from_json(text: str, name: str = "tokenizer.json") -> Tokenizer:
    """The tokenizer in this JSON; anything malformed is one clear line."""
    try:
        return _from_value(json.loads(text))
    except DataError:
        raise
    except Exception as error:          # the library raises plain Exception, and a file may hold anything
        reason = str(error).split("\n")[0] or type(error).__name__
        raise DataError(f"{name} is not a tokenizer saved by regard ({type(error).__name__}: {reason}): "
                        "restore it, or train again") from None


def _from_value(value: dict[str, Any]) -> Tokenizer:
    if FOREIGN in value:
        return ForeignTokenizer.from_dict(value)
    model = value["model"]
    if model["type"] == "BPE" and not model["merges"]:
        found: Tokenizer = ByteTokenizer()
        if found.to_dict()["model"]["vocab"] != model["vocab"]:
            raise ValueError("its bytes are not in order")
        return found
    if model["type"] in ("BPE", "Unigram"):
        return SubwordTokenizer(value)
    pattern = value["pre_tokenizer"]["pattern"]["Regex"]
    kinds: dict[str, Any] = {EVERY_CHARACTER: CharTokenizer, SPACES: WhitespaceTokenizer, WORDS: WordTokenizer}
    if model["type"] != "WordLevel" or pattern not in kinds:
        raise ValueError("its kind cannot be told")
    return kinds[pattern].from_dict(value)
