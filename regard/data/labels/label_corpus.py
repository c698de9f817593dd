"""A corpus of labelled texts: from the names of some files to token shards with targets, a tokenizer and its labels.

The texts are cleaned first, and written side by side with their labels into two plain files of the cache, line k of one
for line k of the other. Where texts are held out of the same files, they are written in a fixed random order: a file is
often sorted by its labels, and its end would hold one of them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache as remember
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data import embedded
from regard.data.batching.shuffle import permute
from regard.data.cleaning.clean_segments import CleanJob
from regard.data.labels.labelled_texts import (
    Labelling,
    LabelSettings,
    find_labelled_sources,
    read_labelled,
    refuse_none,
    whole_part,
)
from regard.data.labels.labelled_tokenizer import LabelledTokenizer, list_labels
from regard.data.pairs.pair_corpus import LINES, Clean, embedded_files, keep_clean, split_clean
from regard.data.pairs.pairs import TextPair
from regard.data.reading.corpus import (
    Learned,
    PreparedCorpus,
    Say,
    TokenizerSettings,
    encode_part,
    learn_tokenizer,
    survey_of,
)
from regard.data.reading.shards import Shard
from regard.data.reading.split import TextSpan
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache, content_hash, key_of
from regard.data.tokens.vocabulary import Tokenizer
from regard.data.workers import keep_workers

VERSION = 1                                       # of what is cached: raise it when cleaning changes
USUAL = "bpe"                                     # tokens: letters alone say little of a text
ORDER = 0x6C6162656C                              # the key of the random order: the same for every run


@dataclass(frozen=True)
class LabelledShard(Shard):
    """Encoded texts, <eos> behind each, and their targets: one a text, (N,), or one a token, <pad> where none is."""

    targets: NDArray[np.int64]
    lines: Callable[[], Iterator[TextPair]]           # (label, text), as they were written

    @property
    def of_tokens(self) -> bool:
        """True if each token has a target."""
        return len(self.targets) == len(self.tokens)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.ends)

    def first(self, most: int) -> LabelledShard:
        """Return the first texts, of `most` tokens at most; the first one is among them whatever its length."""
        number = max(1, int(np.searchsorted(self.ends, most, "right")))
        if number >= len(self):
            return self
        texts = super().first(int(self.ends[number - 1]))
        return LabelledShard(**vars(texts), targets=self.targets[:len(texts.tokens) if self.of_tokens else number],
                             lines=lambda: islice(self.lines(), number))


@dataclass
class LabelCorpus(PreparedCorpus):
    """Labelled texts, ready for training."""

    train: LabelledShard
    valid: LabelledShard
    tokenizer: LabelledTokenizer
    tally: Tally
    content: str = ""
    documents: str = "line"                       # a text is one document, however it was written
    test: Callable[[], LabelledShard] | None = None         # a part that training never reads, where there is one
    measured_on: str = ""                         # what that is: "test", or "half" of what was held out


def prepare_labelled(
    data: LabelSettings, tokenizer: TokenizerSettings | Tokenizer | LabelledTokenizer, labelling: Labelling,
    cache: Path | None = None, say: Say = print,
) -> LabelCorpus:
    """Clean, split, learn a tokenizer and list the labels where none are given, and encode; reuse what was done before.

    With a LabelledTokenizer the labels are its own, and a text with another label is refused.
    """
    store = Cache(cache, say)
    known = partial(embedded.known_labelled, labels=labelling.unit)
    built_in = known(data.files)

    def read(data: LabelSettings, part: str) -> Clean:
        files = embedded_files(data, part, known, store, label="label", text="text")
        mixed = part == "train" and not (data.valid or built_in)
        return clean(files if part == "train" else whole_part(files), labelling, store, say, mixed)

    parts, content = split_clean(data, built_in is not None, read)
    train, valid = parts.train, parts.valid
    if not isinstance(tokenizer, LabelledTokenizer):
        if not isinstance(tokenizer, Tokenizer):
            usual = built_in.tokenizer if built_in else USUAL
            tokenizer = learn_words(train, parts.train_part, tokenizer, usual, store, say)
        both = [train] if valid is train else [train, valid]
        tokenizer = LabelledTokenizer(tokenizer, list_labels(
            name for part in both for pair in part.pairs() for name in labelling.names(pair.source)))
    corpus = LabelCorpus(
        encode(train, parts.train_part, tokenizer, labelling, store, say, "train"),
        encode(valid, parts.valid_part, tokenizer, labelling, store, say, "valid"), tokenizer, parts.tally,
        content, measured_on=parts.measured_on)
    if (find := parts.test) is not None:
        corpus.test = remember(keep_workers(lambda: encode(*find(), corpus.tokenizer, labelling, store, say, "test")))
    return corpus


def clean(data: LabelSettings, labelling: Labelling, store: Cache, say: Say, shuffled: bool = False) -> Clean:
    """Return the texts that are fit, with their labels, on disk; read once for each content and each way of reading."""
    sources = find_labelled_sources(data.files, labelling)
    settings = {"label": data.label, "text": data.text, "on_bad_text": data.on_bad_text,
                "drop_duplicates": data.drop_duplicates, "shuffled": shuffled, "unit": labelling.unit}

    def read(tally: Tally) -> Iterable[TextPair]:
        pairs = read_labelled(data, labelling, tally, sources)
        return shuffle(list(pairs)) if shuffled else pairs

    job = CleanJob(labelling.unit, sources, asdict(data), partial(refuse_none, sources, labelling),
                   shuffled_places if shuffled else None)
    return keep_clean("labelled", key_of(VERSION, content_hash(sources), settings), read, job, store, say)


def shuffle(pairs: list[TextPair]) -> Iterator[TextPair]:
    return (pairs[place] for place in shuffled_places(len(pairs)))


def shuffled_places(count: int) -> NDArray[np.int64]:
    """Return a random order of so many texts, which depends on their number alone."""
    return permute(np.arange(count), count, ORDER)


def learn_words(
    train: Clean, part: TextSpan, wanted: TokenizerSettings, usual: str, store: Cache, say: Say
) -> Tokenizer:
    """Return a tokenizer learned from the texts of the training part."""
    survey = survey_of([train.target], LINES, store, lambda text: None, key_of(train.content, "text"))
    text = Learned(lambda: (pair.target for pair in train.pairs(part)), survey.characters,
                   survey.distinct, key_of(VERSION, train.content, part.stop, "text"))
    return learn_tokenizer(text, usual if wanted.kind == "auto" else wanted.kind, wanted.vocab, store, say)


def encode(
    clean: Clean, part: TextSpan, tokenizer: LabelledTokenizer, labelling: Labelling, store: Cache, say: Say, name: str
) -> LabelledShard:
    """Return a part as a shard of its texts, with their targets."""
    texts = encode_part([clean.target], key_of(clean.content, "text"), LINES, part, tokenizer.text, store, say, name)
    return LabelledShard(**vars(texts), targets=labelling.targets(tokenizer, texts, list(clean.pairs(part))),
                         lines=lambda: clean.pairs(part))
