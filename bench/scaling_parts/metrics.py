"""Measuring: BLEU, chrF, ROUGE, alignment errors and perplexity, of ever more sentences and of ever longer ones.

The longest common subsequence, which ROUGE-L is, compares every word with every other: of one text it may be n^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from regard.data.batching.text_batches import evaluation_batches
from regard.data.tokens.vocabulary import FIRST, UNK
from regard.data.tokens.words import WhitespaceTokenizer
from regard.decoding.spelling import unknown_words
from regard.look.attention_alignment import word_links
from regard.metrics import summary_quality, translation_quality
from regard.metrics.alignment_error import ErrorRate, Gold, error_rate, read_pharaoh
from regard.metrics.perplexity import held_out_loss
from regard.models.ngram import NGram
from scaling_parts.curve import Curve, Setting, Work, doubling
from scaling_parts.families import kinds
from scaling_parts.texts import shard

VOCAB = 64


def line(number: int, words: int = 12) -> str:
    return " ".join(f"w{(number * 31 + at * at) % 997}" for at in range(words))


def lines(count: int, words: int = 12, shift: int = 0) -> list[str]:
    return [line(number + shift, words) for number in range(count)]


def curves(setting: Setting) -> Iterator[Curve]:
    yield from of_texts()
    yield from of_alignments()
    yield from of_surprise(setting)


def of_texts() -> Iterator[Curve]:
    def pairs(work: Callable[[list[str], list[str]], Any]) -> Callable[[int], Work]:
        def prepare(count: int) -> Work:
            said, wanted = lines(count), lines(count, shift=3)
            return Work(lambda: work(said, wanted))

        return prepare

    def long(work: Callable[[list[str], list[str]], Any]) -> Callable[[int], Work]:
        def prepare(words: int) -> Work:
            said, wanted = lines(1, words), lines(1, words, 3)
            return Work(lambda: work(said, wanted))

        return prepare

    def quick(said: list[str], wanted: list[str]) -> Any:
        return translation_quality.measure(said, wanted, intervals=False)

    def rouge(said: list[str], wanted: list[str]) -> Any:
        return summary_quality.measure(said, wanted, intervals=False)

    def in_lines(count: int) -> Work:
        said, wanted = ["\n".join(lines(count))], ["\n".join(lines(count, shift=3))]
        return Work(lambda: rouge(said, wanted))

    sentences, words = doubling(64, 2**15), doubling(256, 2**16)
    yield Curve("metrics: BLEU and chrF", "sentences", sentences, pairs(quick), 1.0)
    yield Curve("metrics: BLEU and chrF of one sentence", "words", words, long(quick), 1.0)
    yield Curve("metrics: intervals of BLEU and chrF", "sentences", sentences,
                pairs(lambda a, b: translation_quality.measure(a, b, samples=40)), 1.0)
    yield Curve("metrics: two systems compared", "sentences", sentences,
                pairs(lambda a, b: translation_quality.paired(a, b, b, samples=40, trials=100)), 1.0)
    yield Curve("metrics: ROUGE", "texts", sentences, pairs(rouge), 1.0)
    yield Curve("metrics: ROUGE of one text", "words", words, long(rouge), 2.0)
    yield Curve("metrics: ROUGE of one text in lines", "lines", doubling(8, 1024), in_lines, 2.0)
    yield Curve("metrics: the lead of documents", "texts", sentences, pairs(lambda a, b: summary_quality.lead(a)), 1.0)
    yield Curve("metrics: the lead of one document", "words", words, long(lambda a, b: summary_quality.lead(a)), 1.0)


def of_alignments() -> Iterator[Curve]:
    def error_of(count: int) -> Work:
        golds = [read_pharaoh(" ".join(f"{at}-{at}" for at in range(12))) for _ in range(count)]
        found = [{(at, (at + number) % 12) for at in range(12)} for number in range(count)]
        return Work(lambda: sum(map(error_rate, found, golds), start=ErrorRate()))

    def read(words: int) -> Work:
        text = " ".join(f"{at}-{at}" for at in range(words))
        return Work(lambda: error_rate(read_pharaoh(text).sure, Gold(frozenset())))

    def from_weights(words: int) -> Work:
        weights, own = torch.rand(words, words), [at // 2 for at in range(words)]
        return Work(lambda: word_links(weights, own, own))

    def spelled(words: int) -> Work:
        known = WhitespaceTokenizer([f"w{at}" for at in range(8)])
        sentence, source = line(0, words), [UNK] * words
        weights = torch.rand(words, words).numpy()
        return Work(lambda: unknown_words(known, sentence, source, known, [UNK, FIRST] * (words // 2), weights))

    yield Curve("metrics: alignment error", "sentences", doubling(64, 2**15), error_of, 1.0)
    yield Curve("metrics: one alignment read", "words", doubling(256, 2**16), read, 1.0)
    # The weights themselves are words x words: n^2 is to read them once.
    yield Curve("metrics: links from weights", "words", doubling(64, 2048), from_weights, 2.0)
    yield Curve("metrics: unknown words spelled from weights", "words", doubling(64, 2048), spelled, 2.0)


def of_surprise(setting: Setting) -> Iterator[Curve]:
    rnn: Any = next(kind for kind in kinds() if kind.name == "lm rnn").build(setting, width=8, layers=1).eval()

    def loss(count: int) -> Work:
        own = shard(count)
        return Work(lambda: held_out_loss(rnn, evaluation_batches(own, 64, 64, documents=True)))

    def counted(count: int) -> Work:
        own = shard(count)
        model = NGram.fit(shard(512).tokens, shard(512).ends, vocab=VOCAB, order=3)
        return Work(lambda: math.fsum(model.score_text(own.tokens, own.ends).tolist()))

    yield Curve("metrics: perplexity", "documents", doubling(64, 2**14), loss, 1.0)
    yield Curve("metrics: perplexity of an n-gram", "documents", doubling(256, 2**17), counted, 1.0)
