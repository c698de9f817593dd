"""The batches of a language model: text in, (tokens, targets) out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.config import one_of
from regard.data.batching.text_batches import Batch, Documents, Streams, Windows, evaluation_batches
from regard.data.reading.corpus import Corpus
from regard.data.reading.shards import Shard

READINGS = {"windows": Windows, "documents": Documents, "streams": Streams}


def reading_for(documents: str) -> str:
    """The default of training.reading: a long text in windows, lines and paragraphs one by one, pairs as such."""
    return {"file": "windows", "pair": "pairs"}.get(documents, "documents")


def training_batches(corpus: Corpus, s: Any, context: int) -> Any:
    one_of("training.reading", s.reading, READINGS)
    return READINGS[s.reading](corpus.train, context=context, batch=s.batch, seed=s.seed, bos=corpus.tokenizer.bos)


@dataclass(frozen=True)
class HeldOut:
    """The held-out split as batches, to be iterated any number of times; with `every` > 1 only each such batch."""

    shard: Shard
    context: int | None
    batch: int
    bos: int
    documents: bool
    every: int = 1

    def __iter__(self) -> Iterator[Batch]:
        batches = evaluation_batches(
            self.shard, context=self.context, batch=self.batch, bos=self.bos, documents=self.documents)
        for index, batch in enumerate(batches):
            if index % self.every == 0:
                yield batch


def held_out(corpus: Corpus, s: Any, context: int) -> HeldOut:
    """Every held-out token once, in windows of the training context or as documents."""
    return HeldOut(corpus.valid, context, s.batch, corpus.tokenizer.bos, s.reading == "documents")
