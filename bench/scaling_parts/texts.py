"""From text to batches: tokenizers on much text and on one giant word, sentences, corpora, batches of texts and pairs.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from regard.corpora import stories
from regard.data.batching.pair_batches import HeldOutPairs, Pairs
from regard.data.batching.text_batches import Documents, Streams, Windows, evaluation_batches
from regard.data.pairs.pair_corpus import PairSettings, PairTokenizerSettings, prepare_pairs
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare
from regard.data.reading.sentences import fit, join, split
from regard.data.reading.shards import Counts, Shard
from regard.data.tokens.piece_words import piece_words, written_words
from regard.data.tokens.tokenizers import KINDS, Tokenizer, train_tokenizer
from regard.data.tokens.vocabulary import EOS, FIRST
from scaling_parts.curve import Curve, Setting, Work, doubling

MANY = 2**21                                             # characters, documents or whatever else, at most
# Lines that tempt a regular expression to begin again and again, without a space in them.
WORDS = {"one letter": "a", "letters and digits": "ab1", "apostrophes": "a'", "numbers with stops": "1.",
         "accents": "é", "underscores": "_", "marks": "?!"}


@cache
def much() -> str:
    text = "\n".join(stories.generate(4000))
    return text * (MANY // len(text) + 1)


@cache
def tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer(kind, [much()[:200_000]], 512 if kind in ("bpe", "unigram") else None)


def fresh(kind: str) -> Tokenizer:
    """One that has seen nothing yet: subwords remember what they have cut."""
    return Tokenizer.from_json(tokenizer(kind).to_json())


def curves(setting: Setting) -> Iterator[Curve]:
    for kind in KINDS:
        yield from of_tokenizer(kind)
    yield from of_sentences()
    yield from of_corpora()
    yield from of_batches()
    yield from of_pairs()


# ------------------------------------------------------------------------------------------- tokenizers


def of_tokenizer(kind: str) -> Iterator[Curve]:
    def text_of(work: Callable[[Tokenizer, str], Any]) -> Callable[[int], Work]:
        def prepare(size: int) -> Work:
            made, text = fresh(kind), much()[:size]
            return Work(lambda: work(made, text))

        return prepare

    def learning(text: str) -> Callable[[int], Work]:
        def prepare(size: int) -> Work:
            part = text[:size]
            return Work(lambda: train_tokenizer(kind, [part], vocab))

        return prepare

    def ids_of(work: Callable[[Tokenizer, list[int]], Any]) -> Callable[[int], Work]:
        def prepare(size: int) -> Work:
            ids = list(itertools.islice(itertools.cycle(tokenizer(kind).encode(much()[:50_000]).tolist()), size))
            return Work(lambda: work(tokenizer(kind), ids))

        return prepare

    # A table look-up is as fast as memory: beyond the caches it is memory that would be measured.
    characters = doubling(2**16, 2**19) if kind in ("char", "byte") else doubling(2**14, MANY)
    learned, remembers = doubling(2**14, MANY), kind in ("bpe", "unigram")
    vocab = 300 if kind in ("bpe", "unigram") else None
    yield Curve(f"{kind}: encoding a text", "characters", characters, text_of(lambda t, text: t.encode(text)), 1.0,
                fresh=remembers)
    yield Curve(f"{kind}: encoding lines", "lines", doubling(256, MANY // 300),
                lambda n: _lines(fresh(kind), n), 1.0, fresh=remembers)
    for name, word in WORDS.items():
        yield Curve(f"{kind}: encoding one word of {name}", "characters", characters, _giant(kind, word), 1.0,
                    fresh=remembers)
    if kind != "byte":                                   # which there is nothing to learn of
        yield Curve(f"{kind}: learning from a text", "characters", learned, learning(much()), 1.0)
        yield Curve(f"{kind}: learning from one word", "characters", learned, learning("ab" * (MANY // 2)), 1.0)
    yield Curve(f"{kind}: decoding", "tokens", doubling(2**12, 2**19), ids_of(lambda t, ids: t.decode(ids)), 1.0)
    yield Curve(f"{kind}: writing tokens as they come", "tokens", doubling(2**12, 2**19), ids_of(_written), 1.0)
    yield Curve(f"{kind}: the word of each token", "characters", doubling(2**12, 2**19),
                text_of(lambda t, text: piece_words(t, text, t.encode(text).tolist())), 1.0)


def _giant(kind: str, word: str) -> Callable[[int], Work]:
    def prepare(size: int) -> Work:
        made, text = fresh(kind), (word * (size // len(word) + 1))[:size]
        return Work(lambda: made.encode(text))

    return prepare


def _lines(made: Tokenizer, count: int) -> Work:
    lines = much()[:count * 300].split("\n")
    lines = (lines * (count // len(lines) + 1))[:count]
    return Work(lambda: made.encode_lines(lines))


def _written(made: Tokenizer, ids: list[int]) -> list[str]:
    writer = made.stream()
    return [writer.push(id) for id in ids] + [writer.flush()]


# -------------------------------------------------------------------------------------------- sentences


def of_sentences() -> Iterator[Curve]:
    texts = {"a text": much(), "one line without stops": much().replace(".", " ").replace("\n", " "),
             "one word": "a" * MANY, "stops alone": ". " * (MANY // 2), "spaces and newlines": " \n" * (MANY // 2)}
    for name, text in texts.items():
        yield Curve(f"sentences: {name} cut and joined", "characters", doubling(2**13, MANY), _cut(text), 1.0)
    yield Curve("sentences: the word of each piece", "pieces", doubling(2**10, 2**18),
                lambda n: Work(lambda: written_words([" cat", "s"] * (n // 2))), 1.0)


def _cut(text: str) -> Callable[[int], Work]:
    def prepare(size: int) -> Work:
        part = text[:size]
        return Work(lambda: join(fit(split(part), len, 200)))

    return prepare


# ---------------------------------------------------------------------------------------------- corpora


def of_corpora() -> Iterator[Curve]:
    one_line = much().replace("\n", " ")
    for kind, documents in (("char", "file"), ("word", "line"), ("bpe", "line"), ("bpe", "blank-line")):
        yield Curve(f"corpus: preparing {kind}, a document a {documents}", "characters", doubling(2**18, MANY),
                    _prepared(much(), kind, documents), 1.0, fresh=True)
        yield Curve(f"corpus: preparing {kind}, a document a {documents}, one giant line", "characters",
                    doubling(2**18, MANY), _prepared(one_line, kind, documents), 1.0, fresh=True)
    yield Curve("corpus: preparing pairs", "pairs", doubling(4096, 2**16), _prepared_pairs, 1.0, fresh=True)


def _prepared(text: str, kind: str, documents: str) -> Callable[[int], Work]:
    def ready(size: int) -> Work:
        folder = Path(tempfile.mkdtemp(prefix="regard-scaling-"))
        (folder / "text.txt").write_text(text[:size])
        valid = folder / "valid.txt"
        valid.write_text("a few words\n" * 10)
        data = DataSettings((str(folder / "text.txt"),), valid=(str(valid),), documents=documents)
        vocab = 300 if kind == "bpe" else 0

        def run() -> None:
            prepare(data, TokenizerSettings(kind, vocab), folder / "cache", say=lambda text: None)
            shutil.rmtree(folder)

        return Work(run)

    return ready


def _prepared_pairs(count: int) -> Work:
    folder = Path(tempfile.mkdtemp(prefix="regard-scaling-"))
    for name, word in (("text.fr", "chat"), ("text.en", "cat")):
        (folder / name).write_text("".join(f"{word} {number} is on the mat .\n" for number in range(count)))
    data = PairSettings((str(folder / "text.fr"), str(folder / "text.en")), langs="fr-en")

    def run() -> None:
        prepare_pairs(data, PairTokenizerSettings("bpe", 300), folder / "cache", say=lambda text: None)
        shutil.rmtree(folder)

    return Work(run)


# ---------------------------------------------------------------------------------------------- batches


def shard(documents: int, spread: int = 24) -> Shard:
    """So many documents of 4 tokens and more, nowhere on disk."""
    lengths = 4 + np.arange(documents) % spread
    tokens = FIRST + np.arange(int(lengths.sum())) % 50
    tokens[np.cumsum(lengths) - 1] = EOS
    return Shard(Path(), tokens.astype(np.uint16), np.cumsum(lengths).astype(np.uint64),
                 Counts(tokens=len(tokens), documents=documents), "", "")


def of_batches() -> Iterator[Curve]:
    """An epoch of batches, of ever more documents: each batch costs the same, but that what it reads lies in memory and
    not in a cache any more."""
    made: dict[str, Callable[[Shard], Any]] = {
        "windows": lambda s: Windows(s, 64, 16), "streams": lambda s: Streams(s, 64, 16),
        "documents": lambda s: Documents(s, 64, 16), "documents cut at 8 tokens": lambda s: Documents(s, 8, 16)}
    for name, make in made.items():
        yield Curve(f"batches: an epoch of {name}", "documents", doubling(256, 2**17), _epoch(make), 1.0)
        yield Curve(f"batches: one batch of {name}", "documents", doubling(2**10, 2**18), _one(make), 0.25)
    for name, documents in (("windows", False), ("documents", True)):
        yield Curve(f"batches: held-out {name}", "documents", doubling(256, 2**17), _held_out(documents), 1.0)


def _epoch(make: Callable[[Shard], Any]) -> Callable[[int], Work]:
    def prepare(count: int) -> Work:
        own = shard(count)

        def run() -> None:
            batches = make(own)
            for step in range(len(batches)):
                batches.batch(step)

        return Work(run)

    return prepare


def _one(make: Callable[[Shard], Any]) -> Callable[[int], Work]:
    """Far apart, so that nothing kept at hand helps."""

    def prepare(count: int) -> Work:
        batches = make(shard(count))
        steps = itertools.cycle([0, len(batches) // 2])
        return Work(lambda: batches.batch(next(steps)))

    return prepare


def _held_out(documents: bool) -> Callable[[int], Work]:
    def prepare(count: int) -> Work:
        own = shard(count)
        return Work(lambda: [batch.real for batch in evaluation_batches(own, 64, 16, documents=documents)])

    return prepare


def of_pairs() -> Iterator[Curve]:
    def ready(source: Shard, target: Shard) -> Work:
        return Work(lambda: Pairs(source, target, budget=1024))

    def held_out(count: int) -> Work:
        own = shard(count)
        return Work(lambda: [batch.real for batch in HeldOutPairs(own, own, 1024)])

    yield Curve("pair batches: made ready", "pairs", doubling(2**12, 2**20), lambda n: ready(shard(n), shard(n)), 1.0)
    yield Curve("pair batches: made ready, of ever more lengths too", "pairs", doubling(256, 2**15),
                lambda n: ready(shard(n, n // 4), shard(n, n // 4)), 1.0)
    yield Curve("pair batches: an epoch", "pairs", doubling(512, 2**18),
                _epoch(lambda own: Pairs(own, own, budget=1024)), 1.0)
    yield Curve("pair batches: held-out", "pairs", doubling(512, 2**18), held_out, 1.0)


def _some_lines(count: int) -> list[str]:
    return [f"{number * 7919 % count} cats sat on {number} mats" for number in range(count)]
