"""Tagging: tagged sentences in, batches with a target at the last token of each word out, accuracy as the measure."""

from __future__ import annotations

from typing import Any

from regard.config import one_of
from regard.data.labels.label_batches import HeldOutLabels, LabelBatches
from regard.data.labels.label_corpus import LabelCorpus, prepare_labelled
from regard.data.labels.labelled_texts import LabelSettings
from regard.data.labels.labelled_tokenizer import LabelledTokenizer
from regard.data.labels.tagged_sentences import OF_WORDS
from regard.families.label_families import LabelVocabularies
from regard.families.tag import TAG
from regard.metrics.filling import guess_labels
from regard.tasks.tag import CARD
from regard.tasks.tag.look import build
from regard.tasks.tag.sample import tag_sentence
from regard.tasks.tag.score import SCORE
from regard.tasks.tag.trained import TrainedTagger
from regard.tasks.task import Task, from_table


def batches(corpus: LabelCorpus, s: Any, context: int) -> LabelBatches:
    one_of("training.reading", s.reading, ("documents",))
    return LabelBatches(corpus.train, context, s.batch, s.seed)


def held_out(corpus: LabelCorpus, s: Any, context: int) -> HeldOutLabels:
    return HeldOutLabels(corpus.valid, context, s.batch)


def prepare(data: LabelSettings, tokenizer: Any, **options: Any) -> LabelCorpus:
    return prepare_labelled(data, tokenizer, OF_WORDS, **options)


def judge(model: Any, corpus: LabelCorpus, context: int) -> dict[str, float]:
    """Return the percentage of the held-out words that get their tag."""
    return {"valid_accuracy": 100 * guess_labels(model, HeldOutLabels(corpus.valid, context, 64)).accuracy}


TASK = Task(
    CARD, TrainedTagger, families=TAG, family=from_table(TAG), batches=batches, held_out=held_out, look=build,
    sample=tag_sentence, data=LabelSettings, prepare=prepare, load_tokenizer=LabelledTokenizer.load,
    vocab=lambda tokenizer: LabelVocabularies(tokenizer.vocab_size, len(tokenizer.labels)), judge=judge, score=SCORE)
