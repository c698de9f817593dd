"""Subwords over bytes: `bpe` (Sennrich et al. 2016) and `unigram` (Kudo 2018), through Hugging Face tokenizers.

Both are lossless: text is cut into chunks (a word with its space, a number, some marks), a chunk becomes its
UTF-8 bytes, and the vocabulary holds every byte. The pattern that cuts is written with plain ranges, so that
Python's `re` and the Rust library read it alike: then each distinct chunk is encoded once by the library and
looked up ever after, which is several times faster than handing it whole texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from regard.data.tokens.characters import BYTE_LEVEL, ByteStream, as_array, byte_letters, readable
from regard.data.tokens.library import asked, open_library, quiet_forks
from regard.data.tokens.vocabulary import (
    FIRST,
    SPECIALS,
    UNK,
    Ids,
    StreamDecoder,
    Tokenizer,
    check_text,
    huggingface,
    split_at,
    tokens_in_order,
)

_BLANK = r"\t-\r "
_MARKS = ("\\x00-\\x08\\x0e-\\x1f!-/:-@\\[-`{-\\x7f"              # ASCII marks and controls
          "\u0080-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf×÷"    # Latin-1 marks
          "\u2000-\u206f\u20a0-\u20cf\u2100-\u2bff"                   # dashes, quotes, currencies, arrows, maths
          "\u3000-\u303f\ufe00-\ufe0f\ufe30-\ufe4f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
          "\U0001f000-\U0001faff")                                    # emoji
# Runs stop at 64 characters, so that no chunk is ever long.
CHUNKS = (f"'(?:s|t|re|ve|m|ll|d)| ?[^0-9{_BLANK}{_MARKS}]{{1,64}}| ?[0-9]{{1,64}}| ?[{_MARKS}]{{1,64}}"
          f"|[{_BLANK}]{{1,64}}(?![^{_BLANK}])|[{_BLANK}]{{1,64}}")

SMALLEST = FIRST + 256
KNOWN_CHUNKS = 2**19                 # chunks remembered with their ids, before starting afresh
LONGEST_TOKEN = 32


class SubwordTokenizer(Tokenizer):
    """A byte-level vocabulary with its merges (`bpe`) or scores (`unigram`)."""

    lossless = True

    def __init__(self, value: dict[str, Any]):
        self.value = value = only_model(value)
        self.kind = {"BPE": "bpe", "Unigram": "unigram"}[value["model"]["type"]]
        self._tokens = _tokens_of(value["model"])
        if missing := set(byte_letters()).difference(self._tokens):
            raise ValueError(f"it lacks {len(missing)} of the 256 bytes")
        self._library = open_library(value)
        self.vocab_size = FIRST + len(self._tokens)
        byte_of = {letter: value for value, letter in enumerate(byte_letters())}
        self._bytes = [bytes(byte_of[letter] for letter in token) for token in self._tokens]
        self._chunks = re.compile(CHUNKS)
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> Ids:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        batch = [self._chunks.findall(check_text(text)) for text in texts]
        self._learn(set().union(*batch))
        known = self._known
        return [np.fromiter(chain.from_iterable([known[chunk] for chunk in chunks]), dtype=np.int32)
                for chunks in batch]

    def _learn(self, chunks: set[str]) -> None:
        """Have the library encode the chunks that were not met before."""
        if len(self._known) > KNOWN_CHUNKS:
            self._known.clear()
        new = list(chunks.difference(self._known))
        for chunk, encoding in zip(new, asked(lambda: self._library.encode_batch_fast(new)), strict=True):
            self._known[chunk] = encoding.ids

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join([self._bytes[id - FIRST] for id in as_array(ids) if id >= FIRST]).decode(errors="replace")

    def token(self, id: int) -> str:
        return SPECIALS[id] if id < FIRST else readable(self._bytes[id - FIRST])

    def stream(self, after: Iterable[int] = ()) -> StreamDecoder:
        return ByteStream(self._bytes, after)

    def to_dict(self) -> dict[str, Any]:
        return self.value


def only_model(value: dict[str, Any]) -> dict[str, Any]:
    """The file's value with its model and nothing else: how texts are cut is ours, and nothing rewrites them."""
    given = value["model"]
    model = {name: UNUSED.get(name, given[name]) for name in given if name in USED or name in UNUSED}
    split = {"type": "Sequence", "pretokenizers": [split_at(CHUNKS, "Isolated"), BYTE_LEVEL]}
    return huggingface(model, split, BYTE_LEVEL)


USED = ("type", "vocab", "merges", "unk_id", "unk_token")
UNUSED = {"dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
          "byte_fallback": False, "ignore_merges": False}


def _tokens_of(model: dict[str, Any]) -> list[str]:
    if model["type"] == "BPE":
        return tokens_in_order(model["vocab"])
    return tokens_in_order({token: id for id, (token, _) in enumerate(model["vocab"])})


def train_subwords(kind: str, texts: Iterable[str], vocab: int) -> SubwordTokenizer:
    """Learns merges or scores from the texts, the same for the same texts."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    quiet_forks()
    model = models.BPE() if kind == "bpe" else models.Unigram()
    learner: Any = tokenizers.Tokenizer(model)
    learner.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(CHUNKS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    learner.decoder = decoders.ByteLevel()
    options: Any = {"vocab_size": vocab, "special_tokens": list(SPECIALS), "show_progress": False,
                    "initial_alphabet": byte_letters()}
    if kind == "bpe":
        trainer: Any = trainers.BpeTrainer(min_frequency=2, max_token_length=LONGEST_TOKEN, **options)
    else:
        trainer = trainers.UnigramTrainer(unk_token=SPECIALS[UNK], **options)
    learner.train_from_iterator(_small(texts), trainer)
    trained = json.loads(learner.to_str())["model"]
    if kind == "unigram":
        trained["vocab"] = _settled(trained["vocab"])
    return SubwordTokenizer({"model": trained})


def _small(texts: Iterable[str]) -> Iterator[str]:
    """The texts in parts that the library's threads can share."""
    for text in texts:
        for start in range(0, len(text), 2**16):
            yield text[start:start + 2**16]


def _settled(vocab: list[list[Any]]) -> list[list[Any]]:
    """The pieces in one order with one score each: the library's sums and ties differ from run to run."""
    specials, pieces = vocab[:FIRST], vocab[FIRST:]
    # Bytes that the text never needed get the lowest score and up to 256 steps of 0.0001, in no fixed order.
    bottom = min(score for _, score in pieces)
    needless = [len(token) == 1 and score < bottom + 0.03 for token, score in pieces]
    scored = [[token, round(bottom - 1 if spare else score, 6)]
              for (token, score), spare in zip(pieces, needless, strict=True)]
    return specials + sorted(scored, key=lambda pair: (-pair[1], pair[0]))
