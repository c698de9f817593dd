"""The n-gram, which is counted and not trained: along the corpus, the order, the vocabulary and the text it reads."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.tokens.vocabulary import BOS, EOS, FIRST
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens
from regard.models.ngram import NGram
from regard.models.ngram.arpa import read_arpa, write_arpa
from scaling_parts.curve import Curve, Setting, Work, doubling

MOST = 2**20                   # tokens
OUT_OF_MEMORY = 0.0001         # GB: the least there may be, so that the disk is used


def text(size: int, vocab: int, even: bool = False) -> np.ndarray:
    """Numbers of words, a few of them frequent, as those of a language are; or all alike."""
    random = np.random.default_rng(0)
    drawn = random.integers(1, vocab - FIRST, size) if even else random.zipf(1.3, size)
    return (FIRST + np.minimum(drawn, vocab - FIRST) - 1).astype(np.int64)


def counted(size: int = 2**14, order: int = 3, vocab: int = 1000, **how: Any) -> NGram:
    return NGram.fit(text(size, vocab), vocab=vocab, order=order, **how)


def curves(setting: Setting) -> Iterator[Curve]:
    def fit(size: int = 2**15, vocab: int = 1000, order: int = 3, even: bool = False) -> Work:
        own = text(size, vocab, even)

        def run() -> NGram:
            return NGram.fit(own, vocab=vocab, order=order)

        return Work(run, lambda: run().nbytes())

    tokens = doubling(2**13, MOST)
    yield Curve("lm ngram: counted", "corpus", tokens, lambda n: fit(size=n), 1.0, 1.0)
    yield Curve("lm ngram: counted, order 5", "corpus", tokens, lambda n: fit(size=n, order=5), 1.0, 1.0)
    yield Curve("lm ngram: counted on the disk", "corpus", tokens, _on_disk, 1.0)
    # Words that are all alike have as many pairs as the text has places: then each order but the first costs about the
    # same, and n - 1 looks like n^1.2 where n is 5 to 7.
    yield Curve("lm ngram: counted, words all alike", "order", (2, 3, 4, 5, 6, 7),
                lambda n: fit(order=n, even=True), 1.25, 1.25)
    yield Curve("lm ngram: counted", "vocabulary", doubling(256, 2**17), lambda n: fit(vocab=n), 1.0, 1.0)
    yield Curve("lm ngram: scoring", "length", tokens, _scored, 1.0)
    yield Curve("lm ngram: one token after", "length", doubling(256, 2**17), _one_token, 0.0, 0.0)
    yield Curve("lm ngram: one token", "vocabulary", doubling(256, 2**16), _of_vocabulary, 1.0)
    yield Curve("lm ngram: all tokens of", "length", doubling(64, 2**14), _whole, 1.0)
    yield Curve("lm ngram: written as ARPA and read again", "corpus", doubling(2**12, 2**17), _arpa, 1.0)


def _on_disk(size: int) -> Work:
    own = text(size, 1000)

    def run() -> None:
        with tempfile.TemporaryDirectory(prefix="regard-scaling-") as folder:
            NGram.fit(own, vocab=1000, order=3, memory=OUT_OF_MEMORY, folder=Path(folder))

    return Work(run)


def _scored(size: int) -> Work:
    model, own = counted(), text(size, 1000)
    return Work(lambda: model.score_text(own))


def _one_token(length: int) -> Work:
    model = counted()
    _, state = model.step(torch.from_numpy(text(length, 1000))[None], model.start(1, length + 1))
    return Work(lambda: model.step(torch.tensor([[FIRST]]), state), state.nbytes)


def _of_vocabulary(vocab: int) -> Work:
    model = counted(vocab=vocab)
    return Work(lambda: model.step(torch.tensor([[FIRST]]), model.start(1, 2)))


def _whole(length: int) -> Work:
    model, how = counted(vocab=64), Sampling(seed=1)
    return Work(lambda: list(generate_tokens(model, [[BOS]], new_tokens=length, sampling=how, banned=(EOS,))))


def _arpa(size: int) -> Work:
    model = counted(size)
    names = [f"w{number}" for number in range(model.vocab)]

    def run() -> None:
        with tempfile.TemporaryDirectory(prefix="regard-scaling-") as folder:
            write_arpa(model, names, Path(folder) / "model.arpa")
            read_arpa(Path(folder) / "model.arpa")

    return Work(run)
