"""Tagging: tagged sentences in, batches with a target at the last token of each word out, accuracy as the measure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from regard.data.labels.label_batches import HeldOutLabels
from regard.data.labels.label_corpus import LabelCorpus, prepare_labelled
from regard.data.labels.tagged_sentences import OF_WORDS, list_columns
from regard.families.label_families import TAG
from regard.tasks.classify import task as classify
from regard.tasks.last_measure import LastMeasure
from regard.tasks.tag import CARD
from regard.tasks.tag.answer import ANSWER
from regard.tasks.tag.look import build
from regard.tasks.tag.sample import tag_sentence
from regard.tasks.tag.score import SCORE
from regard.tasks.tag.trained import TrainedTagger


def held_out(corpus: LabelCorpus, s: Any, context: int) -> HeldOutLabels:
    return HeldOutLabels(corpus.valid, context, s.batch)


TASK = replace(
    classify.TASK, card=CARD, trained=TrainedTagger, families=TAG, held_out=held_out,
    look=build, sample=tag_sentence, prepare=partial(prepare_labelled, labelling=OF_WORDS),
    judge=partial(classify.judge, 64), score=SCORE, answer=ANSWER,
    test=LastMeasure(partial(classify.measure_test, "words")),
    columns=lambda data, names, where: list_columns(names, data, where))
