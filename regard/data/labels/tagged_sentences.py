"""Tagged sentences as labelled texts: the label of a text is the tags of its words, with spaces between them.

A word may be several tokens. Its tag is asked for at its last token; every other token asks nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.labels.labelled_texts import Labelling
from regard.data.labels.labelled_tokenizer import LabelledTokenizer
from regard.data.labels.tag_readers import read_conll, read_conllu, read_slashed, read_tagged_jsonl
from regard.data.pairs.pairs import TextPair
from regard.data.reading.shards import Shard
from regard.data.tokens.piece_words import piece_words
from regard.data.tokens.vocabulary import PAD, Tokenizer


def asking_tokens(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[int]:
    """Return for each word of a text, parted by white space, the place of the token at which its tag is asked for: its
    last."""
    last: dict[int, int] = {}
    for place, word in enumerate(piece_words(tokenizer, text, ids, "whitespace")):
        if word >= 0:
            last[word] = place
    words = len(text.split())
    assert len(last) == words, f"{words - len(last)} words of {text[:80]!r} have no token"
    return [last[word] for word in range(words)]


def target_words(tokenizer: LabelledTokenizer, texts: Shard, pairs: Sequence[TextPair]) -> NDArray[np.int64]:
    """Return a target for each token of the encoded texts: the tag of a word at its last token, elsewhere <pad>."""
    targets = np.full(len(texts.tokens), PAD, np.int64)
    start = 0
    for number, ((tags, text), end) in enumerate(zip(pairs, texts.ends.tolist(), strict=True), 1):
        ids = texts.tokens[start:end - 1].tolist()                                             # without <eos>
        places = asking_tokens(tokenizer.text, text, ids)
        for place, tag in zip(places, tags.split(), strict=True):
            targets[start + place] = tokenizer.target(tag, f"sentence {number}")
        start = end
    return targets


OF_WORDS = Labelling(
    "word", {".conll": ("conll", read_conll), ".tsv": ("conll", read_conll), ".conllu": ("conllu", read_conllu),
             ".txt": ("slashed", read_slashed), ".jsonl": ("jsonl", read_tagged_jsonl),
             ".ndjson": ("jsonl", read_tagged_jsonl)},
    names=str.split, targets=target_words, shape="a word, a tab and its tag, with a blank line between sentences",
    stdin=".conll")
